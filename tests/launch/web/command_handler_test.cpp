#include "launch/web/command_handler.h"

#include <boost/test/unit_test.hpp>
#include <future>
#include <set>

#include "launch/control/event_json.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/expect_error.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(command_handler_test)

namespace {

using launch::CommandHandler;
using nlohmann::json;

constexpr const char* kToken = "secret";

/// The status of two stages that train one microbatch a step.
json two_stages() {
  actors::RunStatus status{.state = "running", .step = 1, .max_steps = 100};
  status.pipeline = {.pp = 2, .stage_of_chunk = {0, 1}, .microbatches = 1};
  status.ranks = {{.rank = 0}, {.rank = 1, .stage = 1}};
  return launch::to_json(status, "run");
}

/// A run that notes what it is ordered.
struct FakeRun {
  int stops = 0;
  std::vector<std::string> changes;
  std::function<void(const actors::ScaleAnswer&)> answer;
  std::function<void(const actors::SaveAnswer&)> saved;
  actors::Hub hub;
  CommandHandler desk{{.token = kToken,
                       .run = {.status = [] { return two_stages(); },
                               .stop = [this](const std::string&) { ++stops; },
                               .scale =
                                   [this](const actors::ScaleRequest& request, auto told) {
                                     changes.push_back(to_string(request));
                                     answer = std::move(told);
                                   },
                               .save = [this](auto told) { saved = std::move(told); },
                               .hub = &hub},
                       .manifest = [] { return checked(kSmallManifest); }}};

  CommandHandler::Answer ask(json request, const std::string& token = kToken) {
    request["token"] = token;
    return desk.answer(request.dump(), 0.5);
  }
};

bool has(const json& body, const char* field, const std::string& text) {
  return body.value(field, "").find(text) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(nothing_is_done_without_the_token) {
  FakeRun run;
  for (const char* token : {"", "secre", "secret2", "Secret"})
    BOOST_TEST(run.ask({{"request", "stop"}}, token).status == 403, token);
  for (const char* body : {"", "{}", "[]", "stop", R"({"token":"secret"})",
                           R"({"token":"secret","request":7})", R"({"token":["secret"]})"})
    BOOST_TEST(run.desk.answer(body, 0).status == 403, body);
  CommandHandler closed(
      {.token = "", .run = {.stop = [&](const std::string&) { ++run.stops; }, .hub = &run.hub}});
  BOOST_TEST(closed.answer(R"({"token":"","request":"stop"})", 0).status == 403);
  BOOST_TEST(run.stops == 0);
  BOOST_TEST(run.ask({{"request", "greet"}}).status == 200);
  BOOST_TEST(run.ask({{"request", "stop"}}).status == 200);
  BOOST_TEST(run.stops == 1);
}

BOOST_AUTO_TEST_CASE(a_preview_shows_the_numbers_of_a_plan_and_changes_nothing) {
  FakeRun run;
  const auto answer = run.ask({{"request", "preview"}, {"pp", 2}, {"schedule", "gpipe"}});
  BOOST_TEST(answer.status == 200);
  for (const char* text :
       {"now: pp 1 x dp 1", "then: pp 2 x dp 1, gpipe", "fullest rank", "MiB",
        "bubble: 0.0 %, then ",
        "cores: 1 rank x 1 thread, then 2 ranks x 1 thread; this machine: 1, which they will share",
        "step: 500 ms, then about "})
    BOOST_TEST(has(answer.body, "text", text), text << " is not in " << answer.body.dump());
  BOOST_TEST(run.changes.empty());
}

BOOST_AUTO_TEST_CASE(what_would_be_refused_is_refused_in_the_preview) {
  FakeRun run;
  const auto refused = [&](json request, const std::string& why) {
    const auto answer = run.ask(std::move(request));
    BOOST_TEST(answer.status == 400);
    BOOST_TEST(has(answer.body, "error", why), answer.body.dump());
  };
  refused({{"request", "preview"}, {"pp", 1000}}, "1000");
  refused({{"request", "preview"}, {"schedule", "gpip"}}, "gpipe");
  refused({{"request", "preview"}, {"pp", "two"}}, "whole number");
  refused({{"request", "preview"}, {"layout", ""}}, "layout is empty");
  refused({{"request", "scale"}, {"schedule", ""}}, "schedule is empty");
  refused({{"request", "scale"}, {"dp", nullptr}}, "dp must be a whole number");
  refused({{"request", "scale"}, {"dp", 1'000'000'000'000}}, "of at most 2147483647");
  refused({{"request", "scale"}, {"schedule", "zero_bubble"}},
          "zero_bubble is kind = 'zb-h1' here");
  refused({{"request", "tap"}, {"edge", "0:1"}, {"backward", "yes"}},
          "backward must be true or false");
  refused({{"request", "scale"}, {"ppp", 2}}, "'ppp' is no field of scale; did you mean 'pp'?");
  refused({{"request", "stop"}, {"now", true}}, "'now' is no field of stop");
  refused({{"request", "trace"}}, "steps is missing");
  refused({{"request", "trace"}, {"steps", "two"}}, "steps must be a whole number");
  refused({{"request", "tap"}, {"edge", ""}}, "edge is empty");
  BOOST_TEST(run.stops == 0);
  refused({{"request", "scale"}, {"without_hosts", "h1"}}, "without_hosts must be a list of names");
  refused({{"request", "scale"}, {"without_hosts", {"h1", ""}}},
          "without_hosts must be a list of names");
  refused({{"request", "scale"}}, "nothing to change");
  refused({{"request", "explode"}}, "explode");
}

BOOST_AUTO_TEST_CASE(a_change_is_ordered_and_its_end_is_told) {
  FakeRun run;
  BOOST_TEST(run.desk.newest() == "");
  BOOST_TEST(run.ask({{"request", "scale"}, {"pp", 3}, {"schedule", "gpipe"}}).status == 200);
  BOOST_TEST((run.changes == std::vector<std::string>{"--pp 3 --schedule gpipe"}));
  BOOST_TEST(run.desk.newest() == "--pp 3 --schedule gpipe: under way");
  run.answer({.code = 0, .text = "done in 2 s"});
  BOOST_TEST(run.desk.newest() == "--pp 3 --schedule gpipe: done in 2 s");
  run.ask({{"request", "scale"}, {"pp", 9}});
  run.answer({.code = 64, .text = "no"});
  BOOST_TEST(run.desk.newest() == "--pp 9: refused: no");
}

BOOST_AUTO_TEST_CASE(a_checkpoint_is_ordered_and_its_end_is_told) {
  FakeRun run;
  BOOST_TEST(has(run.ask({{"request", "save"}}).body, "text", "ordered"));
  BOOST_TEST(run.desk.newest() == "checkpoint: under way");
  run.saved({.code = 0, .step = 7, .text = ""});
  BOOST_TEST(run.desk.newest() == "checkpoint: step 7 is saved");
  run.ask({{"request", "save"}});
  run.saved({.code = 75, .text = "another"});
  BOOST_TEST(run.desk.newest() == "checkpoint: refused: another");
}

BOOST_AUTO_TEST_CASE(a_trace_has_the_steps_that_were_asked_for) {
  FakeRun run;
  auto answer = std::async(std::launch::async, [&] {
    return run.ask({{"request", "trace"}, {"steps", 2}});
  });
  for (int step = 1; answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready; ++step)
    for (int rank = 0; rank < 2; ++rank)
      run.hub.publish(
          {.step = step,
           .rank = rank,
           .body = actors::ActionsTraced{.actions = {{.name = "0F0", .begin_s = 1, .end_s = 2}},
                                         .complete = true}});
  const auto [status, body] = answer.get();
  BOOST_TEST(status == 200, body.dump());
  std::set<std::int64_t> steps;
  for (const json& event : body.at("trace").at("traceEvents"))
    if (event.at("ph") == "X") steps.insert(event.at("args").at("step").get<std::int64_t>());
  BOOST_TEST(steps.size() == 2u);
  BOOST_TEST(run.ask({{"request", "trace"}, {"steps", 0}}).status == 400);
  BOOST_TEST(run.ask({{"request", "trace"}, {"steps", 21}}).status == 400);
  BOOST_TEST(!run.hub.wanted<actors::ActionsTraced>());
}

BOOST_AUTO_TEST_CASE(a_tap_tells_of_the_next_tensors_of_an_edge) {
  FakeRun run;
  auto answer = std::async(std::launch::async, [&] {
    return run.ask({{"request", "tap"}, {"edge", "1:0"}, {"backward", true}});
  });
  for (int step = 1; answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready; ++step)
    run.hub.publish({.step = step,
                     .rank = 1,
                     .body = actors::TensorTapped{
                         .to = 0, .backward = true, .summary = {.elements = 48, .norm = 2.5}}});
  const auto [status, body] = answer.get();
  BOOST_TEST(status == 200, body.dump());
  BOOST_TEST(has(body, "text", "48 elements, norm 2.5"));
  const auto refused = run.ask({{"request", "tap"}, {"edge", "0:7"}});
  BOOST_TEST(refused.status == 400);
  BOOST_TEST(has(refused.body, "error", "0:1"), refused.body.dump());
  BOOST_TEST(run.ask({{"request", "tap"}, {"edge", "x"}}).status == 400);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
