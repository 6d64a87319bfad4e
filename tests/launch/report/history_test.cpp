#include "launch/report/history.h"

#include <boost/test/unit_test.hpp>

#include "launch/report/time_account.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(history_test)

namespace {

using launch::History;
using launch::TimelineEntry;
using nlohmann::json;

json event(const char* kind, double time, std::int64_t step, json more = json::object()) {
  more.update({{"kind", kind}, {"time", time}, {"step", step}});
  return more;
}
json membership(double time, std::int64_t step, int configuration, int pp) {
  return event("membership", time, step,
               {{"configuration", configuration},
                {"pp", pp},
                {"dp", 1},
                {"tp", 1},
                {"schedule", "1f1b"},
                {"ranks", {{{"host", "a"}}, {{"host", "b"}}, {{"host", "a"}}}}});
}
const json kPhases{{"detect_s", 0.5}, {"decide_s", 0},     {"spawn_s", 1},
                   {"move_s", 2},     {"rebuild_s", 0.25}, {"first_step_s", 4}};  // of old files

/// A run that loses a worker, is scaled, dies, and is resumed.
std::vector<json> events_of_a_hard_life() {
  return {membership(100, 0, 1, 2),
          event("failure", 110, 7, {{"cause", "rank 1 was killed"}, {"rank", 1}}),
          membership(112, 7, 2, 2),
          event("phase", 112, 7, {{"phase", "move"}}),
          event("recovered", 118, 8,
                {{"cause", "rank 1 was killed"}, {"phases", kPhases}, {"stall_s", 7.75}}),
          event("checkpoint", 119, 10, {{"duration_s", 0.5}}),
          membership(120, 12, 3, 3),
          event("rescaled", 121, 13, {{"cause", "--pp 3"}, {"phases", kPhases}, {"stall_s", 2.5}}),
          membership(200, 10, 1, 3),
          event("attached", 201, 10, {{"cause", "status"}}),
          event("ended", 210, 20, {{"cause", "finished"}, {"exit_code", 0}})};
}

std::vector<std::string> kinds_of(const History& history) {
  std::vector<std::string> kinds;
  for (const TimelineEntry& h : history.timeline) kinds.push_back(h.kind);
  return kinds;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_history_tells_what_happened_in_order) {
  const History history = launch::history_of(events_of_a_hard_life());
  BOOST_TEST((kinds_of(history) ==
              std::vector<std::string>{"failure", "recovered", "rescaled", "launch", "ended"}));
  const TimelineEntry& recovered = history.timeline[1];
  BOOST_TEST(recovered.step == 8);
  BOOST_TEST(recovered.stall_s == 7.75);
  BOOST_REQUIRE(recovered.phases.size() == 7u);
  BOOST_TEST(recovered.phases[2].name == "spawn");
  BOOST_TEST(recovered.phases[5].name == "catch up");
  BOOST_TEST(recovered.phases[6].seconds == 4);
  BOOST_TEST(history.timeline[0].rank == 1);
  BOOST_TEST(history.timeline[3].text == "resumed after step 10");
  BOOST_REQUIRE(history.checkpoints.size() == 1u);
  BOOST_TEST(history.checkpoints[0].duration_s == 0.5);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_is_told_by_its_name_which_fits_a_narrow_screen) {
  const json saved = event("checkpoint", 119, 10,
                           {{"path", "/a/long/way/run/checkpoints/step-10"}, {"duration_s", 0.5}});
  BOOST_TEST(launch::entry_of(saved).sentence() == "step-10, written in 500 ms");
}

BOOST_AUTO_TEST_CASE(a_launch_lasts_from_its_first_event_to_its_last) {
  const History history = launch::history_of(events_of_a_hard_life());
  BOOST_REQUIRE(history.launches.size() == 2u);
  BOOST_TEST(history.launches[0].begin == 100);
  BOOST_TEST(history.launches[0].end == 121);
  BOOST_TEST(!history.launches[0].ended);
  BOOST_TEST(history.launches[1].begin == 200);
  BOOST_TEST(history.launches[1].ended);
}

BOOST_AUTO_TEST_CASE(shapes_follow_each_other_over_the_steps_that_stayed) {
  const History history = launch::history_of(events_of_a_hard_life());
  BOOST_REQUIRE(history.shapes.size() == 2u);
  BOOST_TEST(history.shapes[0].text() == "pp 2, 1f1b");
  BOOST_TEST(history.shapes[0].after_step == 0);
  // The first launch had this shape from step 13 on, but these steps were dropped.
  BOOST_TEST(history.shapes[1].text() == "pp 3, 1f1b");
  BOOST_TEST(history.shapes[1].after_step == 10);
  BOOST_TEST((history.shapes[1].hosts == std::vector<std::string>{"a", "b"}));
}

BOOST_AUTO_TEST_CASE(hosts_have_their_newest_state_and_all_their_losses) {
  const auto host = [](double time, const char* name, const char* state, int configuration,
                       const char* cause = "") {
    return event(
        "host", time, 0,
        {{"host", name}, {"state", state}, {"configuration", configuration}, {"cause", cause}});
  };
  std::vector<json> events{host(100, "a", "joined", 0), host(101, "b", "joined", 0),
                           membership(102, 0, 1, 2),    host(110, "b", "lost", 1, "silence"),
                           membership(111, 4, 2, 2),    host(120, "b", "spare", 2)};
  History history = launch::history_of(events);
  BOOST_REQUIRE(history.hosts.size() == 2u);
  BOOST_TEST((history.hosts[1].host == "b" && history.hosts[1].state == "spare"));
  BOOST_TEST((history.hosts[0].losses == 0 && history.hosts[1].losses == 1));
  BOOST_TEST(history.ranks.size() == 3u);
  BOOST_REQUIRE(history.timeline.size() == 2u);
  BOOST_TEST(history.timeline[0].sentence() == "b: lost: silence");
  BOOST_TEST(history.timeline[1].sentence() == "b: spare");
  BOOST_TEST(history.launches.size() == 1u);
  BOOST_TEST(history.launches[0].begin == 102);
  // A next launch has other hosts. Its life begins with its first configuration.
  for (const json& next :
       {host(200, "b", "joined", 0), host(201, "c", "joined", 0), membership(202, 4, 1, 2)})
    events.push_back(next);
  history = launch::history_of(events);
  BOOST_REQUIRE(history.hosts.size() == 2u);
  BOOST_TEST((history.hosts[0].host == "b" && history.hosts[1].host == "c"));
  BOOST_TEST((history.hosts[0].state == "joined" && history.hosts[0].losses == 1));
  BOOST_REQUIRE(history.launches.size() == 2u);
  BOOST_TEST(history.launches[0].end == 120);
  BOOST_TEST(history.launches[1].begin == 202);
}

BOOST_AUTO_TEST_CASE(events_without_a_cause_are_told_by_their_numbers) {
  const History history = launch::history_of(
      {event("large_gradient", 5, 3, {{"rank", 2}, {"bucket", 4}, {"norm", 125.5}}),
       event("straggler", 6, 3,
             {{"stage", 1}, {"replica", 0}, {"busy_s", 0.02}, {"usual_busy_s", 0.01}})});
  BOOST_REQUIRE(history.timeline.size() == 2u);
  BOOST_TEST(history.timeline[0].text == "bucket 4 of its gradients has a norm of 125.5");
  BOOST_TEST(history.timeline[1].text ==
             "stage 1 of replica 0 is slow: 20.0 ms of work in a step, usual 10.0");
}

BOOST_AUTO_TEST_CASE(events_of_any_form_are_read) {
  BOOST_TEST(launch::history_of({}).launches.empty());
  const History history = launch::history_of({json::object(),
                                              event("failure", 5, 1),
                                              {{"kind", 7}, {"time", "x"}, {"phases", 3}},
                                              {{"kind", "recovered"}, {"phases", json::array()}}});
  BOOST_TEST((kinds_of(history) == std::vector<std::string>{"failure", "recovered"}));
}

BOOST_AUTO_TEST_CASE(the_parts_of_the_time_add_up_to_the_life_of_the_run) {
  const History history = launch::history_of(events_of_a_hard_life());
  launch::Metrics metrics;
  metrics.steps = {{.step = 1, .step_s = 4, .busy_s = 2, .idle_s = 1.5, .collective_s = 0.5},
                   {.step = 2, .step_s = 2, .busy_s = 1, .idle_s = 0.5, .collective_s = 0},
                   {.step = 8, .step_s = 4, .busy_s = 4}};  // the first after the recovery
  const auto seconds = [&](double now, std::optional<double> bubble = {}) {
    std::map<std::string, double> by_name;
    for (const auto& share :
         launch::where_time_went(launch::time_sums(metrics, history), history, now, bubble).parts)
      by_name[share.name] = share.seconds;
    return by_name;
  };
  auto time = seconds(0);
  BOOST_TEST(time["computing"] == 3);
  BOOST_TEST(time["waiting for other stages"] == 1.5);
  BOOST_TEST(time["waiting for shards"] == 0.5);
  BOOST_TEST(time["ending steps"] == 1);
  BOOST_TEST(time["recoveries"] == 7.75);  // as the event says, with the first step
  BOOST_TEST(time["ordered changes"] == 2.5);
  BOOST_TEST(time["other"] == 31 - 6 - 7.75 - 2.5);
  BOOST_TEST(seconds(1000)["other"] == time["other"]);  // the last launch has ended
  // Ranks that compute for 3 s in three quarters of the time idle for 1 s in the last one.
  time = seconds(0, 0.25);
  BOOST_TEST(time["bubble"] == 1);
  BOOST_TEST(time["late messages"] == 0.5);
  time = seconds(0, 0.9);  // more than the ranks waited
  BOOST_TEST(time["bubble"] == 1.5);
  BOOST_TEST(time["late messages"] == 0);

  auto events = events_of_a_hard_life();
  events.pop_back();
  const auto live = launch::where_time_went(launch::time_sums(metrics, history),
                                            launch::history_of(events), 1000, std::nullopt);
  double sum = 0;
  for (const auto& share : live.parts) sum += share.seconds;
  BOOST_TEST(sum == 21 + 800);
  BOOST_TEST(live.whole_s == sum);
}

/// A run that goes back from step 40 to step 20 with fewer stages, and is scaled on the way.
BOOST_AUTO_TEST_CASE(steps_that_are_computed_again_are_told_once) {
  json catches_up = kPhases;
  catches_up["catch_up_s"] = 20;
  std::vector<json> events{
      membership(100, 0, 1, 2),
      membership(105, 30, 2, 3),
      event("failure", 110, 40, {{"cause", "rank 1 was killed"}, {"rank", 1}, {"detect_s", 0.5}}),
      event("went_back", 111, 20,
            {{"cause", "goes back to step 20, 20 steps to compute again"},
             {"back_to", 20},
             {"reached", 40}}),
      membership(111, 20, 3, 1),
      membership(120, 30, 4, 2),
      event("rescaled", 121, 31, {{"cause", "pp 2"}, {"phases", kPhases}, {"stall_s", 2}})};
  const auto parts = [&](double now) {
    launch::Metrics metrics;
    for (int step = 1; step <= 41; ++step) metrics.steps.push_back({.step = step, .step_s = 0.2});
    const History history = launch::history_of(events);
    std::map<std::string, double> by_name;
    for (const auto& share :
         launch::where_time_went(launch::time_sums(metrics, history), history, now, std::nullopt)
             .parts)
      by_name[share.name] = share.seconds;
    return by_name;
  };
  auto time = parts(125);
  BOOST_TEST(time["recoveries"] == 125 - 109.5);  // under way
  BOOST_TEST(time["ordered changes"] == 0);       // it is a part of the recovery

  events.push_back(
      event("recovered", 136, 41,
            {{"cause", "rank 1 was killed"}, {"phases", catches_up}, {"stall_s", 26.5}}));
  time = parts(0);
  BOOST_TEST(time["recoveries"] == 26.5);
  BOOST_TEST(time["ordered changes"] == 0);
  BOOST_TEST(time["ending steps"] == 40 * 0.2, boost::test_tools::tolerance(1e-9));  // not step 41

  const History history = launch::history_of(events);
  BOOST_TEST((kinds_of(history) ==
              std::vector<std::string>{"failure", "went_back", "rescaled", "recovered"}));
  BOOST_TEST(history.timeline[1].title() == "went back");
  std::vector<std::pair<std::int64_t, int>> shapes;
  for (const auto& shape : history.shapes) shapes.emplace_back(shape.after_step, shape.pp);
  BOOST_TEST((shapes == std::vector<std::pair<std::int64_t, int>>{{0, 2}, {30, 3}, {40, 2}}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
