#include "launch/monitors/terminal_page.h"

#include <boost/test/unit_test.hpp>
#include <random>

#include "tests/support/seed.h"

namespace troupe::test {
namespace {

using launch::PageOptions;
using launch::RunPicture;
using nlohmann::json;

const json kStatus = {{"run", "first"},
                      {"state", "running"},
                      {"step", 3},
                      {"epoch", 1},
                      {"ranks",
                       {{{"rank", 0}, {"replica", 0}, {"stage", 0}, {"pid", 10}, {"host", "h"}},
                        {{"rank", 1}, {"replica", 0}, {"stage", 1}, {"pid", 11}, {"host", "h"}}}}};

json step(std::int64_t number, double loss) {
  return {{"kind", "step"},
          {"time", 1.7e9},
          {"step", number},
          {"epoch", 1},
          {"loss", loss},
          {"grad_norm", 1.5},
          {"tokens_per_s", 12345},
          {"step_s", 0.25},
          {"stages",
           {{{"replica", 0}, {"stage", 0}, {"busy_s", 3}, {"idle_s", 1}},
            {{"replica", 0}, {"stage", 1}, {"busy_s", 1}, {"idle_s", 1}}}}};
}

std::string joined(const std::vector<std::string>& page) {
  std::string all;
  for (const auto& line : page) all += line + "\n";
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_page_shows_what_a_user_looks_for_in_80_by_24) {
  RunPicture run(kStatus);
  for (int i = 4; i < 60; ++i) run.apply(step(i, 5.0 - 0.05 * i));
  run.apply({{"kind", "activity"},
             {"rank", 1},
             {"state", "waiting"},
             {"waiting_for", "activation of step 59"},
             {"resident_bytes", 1 << 20}});
  run.apply({{"kind", "failure"}, {"time", 1.7e9}, {"step", 58}, {"rank", 1}, {"cause", "killed"}});
  // Events that come many times a second push no others out of sight.
  for (int i = 0; i < 300; ++i)
    for (const char* kind : {"director", "tensor", "actions"}) run.apply({{"kind", kind}});
  run.count_dropped(7);
  const auto page = terminal_page(run, {});
  BOOST_TEST(page.size() == 24u);
  for (const auto& line : page) BOOST_TEST(line.size() <= 80u);
  const std::string text = joined(page);
  for (const char* part : {"first", "running", "step 59", "loss 2.05", "12345 tokens/s",
                           "pp 2 x dp 1   0 -> 1", "75 %", "50 %", "<- activation of step 59",
                           "failure rank 1: killed", "7 events missed", "q leave", "*"})
    BOOST_TEST(text.find(part) != std::string::npos, part << " is not in\n" << text);
}

BOOST_AUTO_TEST_CASE(every_size_is_filled_and_kept) {
  RunPicture run(kStatus);
  for (int i = 4; i < 300; ++i) run.apply(step(i, 1.0 / i));
  for (int i = 0; i < 100; ++i) run.apply({{"kind", "note"}, {"cause", std::string(500, 'x')}});
  for (int width : {1, 10, 23, 24, 80, 300})
    for (int height : {1, 2, 3, 5, 24, 100})
      for (const bool events_only : {false, true}) {
        const auto page =
            terminal_page(run, {.width = width, .height = height, .events_only = events_only});
        BOOST_TEST(page.size() == static_cast<std::size_t>(height));
        for (const auto& line : page) BOOST_TEST(line.size() <= static_cast<std::size_t>(width));
      }
}

BOOST_AUTO_TEST_CASE(no_control_character_reaches_the_terminal) {
  json status = kStatus;
  status["run"] = "\x1b[2Jevil\n\xc3\xa4";
  RunPicture run(status);
  run.apply({{"kind", "note"}, {"cause", "\x1b]0;title\x07"}});
  for (const auto& line : terminal_page(run, {}))
    for (const char c : line) BOOST_TEST((c >= ' ' && c <= '~'));
}

BOOST_AUTO_TEST_CASE(a_crowd_of_ranks_is_scrolled) {
  json status = kStatus;
  status["ranks"] = json::array();
  for (int rank = 0; rank < 50; ++rank)
    status["ranks"].push_back({{"rank", rank}, {"replica", rank / 10}, {"stage", rank % 10}});
  const RunPicture run(status);
  BOOST_TEST(joined(terminal_page(run, {})).find("rank   0 ") != std::string::npos);
  const std::string scrolled = joined(terminal_page(run, {.first_rank = 20}));
  BOOST_TEST(scrolled.find("rank   0 ") == std::string::npos);
  BOOST_TEST(scrolled.find("rank  20 ") != std::string::npos);
  BOOST_TEST(joined(terminal_page(run, {.first_rank = 1000})).find("rank  49 ") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(losses_are_thinned_evenly) {
  RunPicture run(kStatus);
  const int steps = 3 * static_cast<int>(RunPicture::kMaxLosses);
  for (int i = 0; i < steps; ++i) run.apply(step(i, i));
  const auto& losses = run.losses();
  BOOST_TEST(losses.size() <= RunPicture::kMaxLosses);
  BOOST_TEST(losses.size() > RunPicture::kMaxLosses / 2);
  for (std::size_t i = 2; i < losses.size(); ++i)
    BOOST_TEST(losses[i] - losses[i - 1] == losses[1] - losses[0]);
}

/// Fields of any type leave the picture and its page intact.
BOOST_AUTO_TEST_CASE(fields_of_any_type_do_no_harm) {
  std::mt19937_64 random(fresh_seed());
  const json values[] = {nullptr, -1, 1e300, "text", json::array({1, "x"}), json::object(), true};
  const char* kinds[] = {"step", "activity", "membership", "recovered", "straggler", "ended", "?"};
  RunPicture run(json{{"ranks", {1, nullptr, {{"rank", "x"}}}}, {"step", "x"}});
  for (int i = 0; i < 2000; ++i) {
    json event = step(i, 1);
    for (const char* name : {"time", "step", "epoch", "loss", "stages", "ranks", "rank", "cause",
                             "pp", "stall_s", "waiting_for", "resident_bytes"})
      if (random() % 2 == 0) event[name] = values[random() % std::size(values)];
    event["kind"] = kinds[random() % std::size(kinds)];
    run.apply(event);
    BOOST_TEST(terminal_page(run, {}).size() == 24u);
  }
}

}  // namespace troupe::test
