// What the page is sent of a run, and what of many events it shows.

#include "launch/web/state_replies.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <future>

#include "launch/control/event_json.h"
#include "tests/launch/step_event.h"
#include "tests/launch/watched_run.h"
#include "tests/support/xml.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(state_replies_test)

using namespace watch;
using nlohmann::json;

BOOST_AUTO_TEST_CASE(what_comes_all_the_time_pushes_no_failure_out_and_is_shown_on_demand) {
  RunWatch watch = watched();
  watch.apply(event_of(FailureDetected{.cause = "rank 1 was killed"}, 1, 101));
  watch.apply(event_of(EvaluationDone{.loss = 4.25}, 1, 102));
  for (std::uint64_t i = 0; i < 3000; ++i) {
    watch.apply(event_of(DirectorActivity{.mailbox_depth = i}, 1, 103));
    watch.apply(event_of(Note{.text = "note " + std::to_string(i)}, 1, 104));
  }
  const RunNow now = watch.now(kNow);
  const std::string events = part_of(now, "events"),
                    all = part_of(now, "events", {.routine = true});
  for (const char* text : {"rank 1 was killed", "loss 4.2500", "note 2999"}) {
    BOOST_TEST(has(events, text), text);
    BOOST_TEST(has(all, text), text);
  }
  BOOST_TEST(events.find("note 2999") < events.find("rank 1 was killed"));  // newest first
  BOOST_TEST(!has(events, "note 12<"));
  BOOST_TEST(!has(events, "wait for the director"));
  BOOST_TEST(has(all, "2999 messages wait for the director"));
  BOOST_TEST(now.routine.size() == RunWatch::kMostRoutine);
}

BOOST_AUTO_TEST_CASE(a_list_of_events_is_no_wall) {
  RunWatch watch = watched(10'000);
  for (int i = 1; i <= 400; ++i) {
    watch.apply(event_of(EvaluationDone{.loss = 4}, 10 * i, 100 + i));
    if (i % 2 == 0)
      watch.apply(
          event_of(CheckpointSaved{.path = "/run/step", .duration_s = 1}, 10 * i, 100.5 + i));
    if (i == 200) watch.apply(event_of(FailureDetected{.cause = "killed"}, 10 * i, 100.7 + i));
  }
  const std::string events = part_of(watch.now(kNow), "events");
  BOOST_CHECK_NO_THROW(parse_xml("<x>" + events + "</x>"));
  BOOST_TEST(has(events, "200 evaluations"));
  BOOST_TEST(has(events, "100 checkpoints"));
  BOOST_TEST(has(events, "10 to 2000"));
  std::size_t folds = 0;
  for (std::size_t at = 0; (at = events.find("<details>", at)) != events.npos; ++at) ++folds;
  BOOST_TEST(folds == 2u);  // before and after the failure
}

BOOST_AUTO_TEST_CASE(a_short_recovery_has_a_bar_beside_a_long_one) {
  RunWatch watch = watched();
  for (int i = 1; i <= 12; ++i) {
    const double stall_s = i == 5 ? 132 : 0.1 + 0.01 * i;
    watch.apply(event_of(Recovered{.cause = "killed",
                                   .from = "memory",
                                   .phases = {.spawn_s = stall_s},
                                   .stall_s = stall_s},
                         i, 100 + i));
  }
  const std::string events = part_of(watch.now(kNow), "events");
  const auto tree = parse_xml("<x>" + events + "</x>");
  const auto widths = attributes_of(tree, "rect", "width");
  BOOST_TEST(widths.contains("100%"));
  BOOST_TEST(widths.contains("20%"));  // the shortest of the ten longest
  BOOST_TEST(has(events, "the 10 longest of 12"));
}

BOOST_AUTO_TEST_CASE(a_reader_is_waited_for_until_it_has_been_sent_the_end) {
  RunWatch watch = watched();
  watch.apply(step_event(1, 3.5));
  launch::StateReplies replies(watch);
  const auto ask = [&] {
    const json reply = replies.reply_to("reader=a");
    replies.sent("reader=a", reply);
    return reply.at("ended") == true;
  };
  BOOST_TEST(!ask());
  watch.end({.exit_code = 0, .step = 1, .reason = "finished"});
  BOOST_TEST(watch.now(kNow).state() == "ended in order");
  auto waits =
      std::async(std::launch::async, [&] { replies.wait_for_readers(std::chrono::hours(1)); });
  while (!ask()) {
  }
  waits.get();
}

BOOST_AUTO_TEST_CASE(only_parts_that_the_reader_does_not_have_are_sent) {
  RunWatch watch = watched();
  watch.apply(step_event(1, 3.5));
  launch::StateReplies replies(watch);
  const json first = replies.reply_to("");
  BOOST_TEST(first.at("title") == "a & b: training");
  BOOST_TEST(first.at("shape").empty());
  std::string query;
  for (const auto& [id, part] : first.at("parts").items())
    query += id + "=" + part.at("version").get<std::string>() + "&";
  BOOST_TEST(replies.reply_to(query).at("parts").empty());
  const json other = replies.reply_to(query + "scale=log").at("parts");
  BOOST_TEST(other.size() == 1u);
  BOOST_TEST(other.contains("loss"));
  for (const char* strange : {"loss", "&&=&", "loss=%00", "scale=log=log"})
    BOOST_TEST(replies.reply_to(strange).at("parts").contains("loss"), strange);
  watch.apply(members(4, 2));
  const json shape{{"pp", 4}, {"dp", 2}, {"tp", 1}, {"schedule", "1f1b"}};
  BOOST_TEST((launch::StateReplies(watch).reply_to("").at("shape") == shape));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
