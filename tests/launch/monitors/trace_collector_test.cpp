#include "launch/monitors/trace_collector.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <utility>

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(trace_collector_test)

namespace {

using launch::TraceCollector;
using nlohmann::json;

const json kStatus = {
    {"ranks",
     {{{"rank", 0}, {"replica", 0}, {"stage", 0}}, {{"rank", 1}, {"replica", 0}, {"stage", 1}}}}};

json action(const char* name, double begin_s, double end_s, int from, int to, double waited_s = 0) {
  return {{"name", name},         {"queued_s", begin_s - 0.25},
          {"begin_s", begin_s},   {"end_s", end_s},
          {"from", from},         {"to", to},
          {"waited_s", waited_s}, {"sent_s", end_s}};
}

json actions_event(std::int64_t step, int rank, const std::vector<json>& actions,
                   bool complete = true) {
  return {{"kind", "actions"},
          {"step", step},
          {"rank", rank},
          {"actions", actions},
          {"complete", complete}};
}

/// Adds a step of one microbatch through two stages.
void add_step(TraceCollector& trace, std::int64_t step, double at) {
  trace.add(actions_event(
      step, 0, {action("0F0", at, at + 1, -1, 1), action("0B0", at + 4, at + 5, 1, -1, 3)}));
  trace.add(actions_event(step, 1, {action("1F0", at + 1, at + 2, 0, -1, 1)}, false));
  trace.add(actions_event(step, 1, {action("1B0", at + 2, at + 4, -1, 0)}));
}

std::vector<json> of_phase(const json& trace, const char* phase) {
  std::vector<json> found;
  for (const json& event : trace.at("traceEvents"))
    if (event.at("ph") == phase) found.push_back(event);
  return found;
}

}  // namespace

BOOST_AUTO_TEST_CASE(actions_waits_and_messages_become_events) {
  TraceCollector trace(kStatus, 1);
  add_step(trace, 7, 100);
  BOOST_TEST(trace.done());
  const json file = trace.chrome_trace();
  BOOST_TEST(of_phase(file, "M").size() == 8u);
  const auto bars = of_phase(file, "X");
  BOOST_REQUIRE(bars.size() == 6u);  // four actions, two waits
  for (const json& bar : bars) {
    BOOST_TEST(bar.at("ts") >= 0);
    BOOST_TEST(bar.at("dur") > 0);
    BOOST_TEST(bar.at("args").at("step") == 7);
    if (bar.at("cat") == "action") BOOST_TEST(bar.at("args").at("queued_us_before") == 250'000);
  }
  const auto begins = of_phase(file, "s"), ends = of_phase(file, "f");
  BOOST_REQUIRE(begins.size() == 2u);
  BOOST_REQUIRE(ends.size() == 2u);
  for (const json& begin : begins) {
    const auto end = std::find_if(ends.begin(), ends.end(),
                                  [&](const json& e) { return e.at("id") == begin.at("id"); });
    BOOST_REQUIRE((end != ends.end()));
    BOOST_TEST(begin.at("pid") != end->at("pid"));
    BOOST_TEST(begin.at("ts") < end->at("ts"));
  }
}

BOOST_AUTO_TEST_CASE(times_of_several_hosts_are_set_to_one_clock) {
  json status = kStatus;
  status["ranks"][0]["host"] = "a";
  status["ranks"][1]["host"] = "b";
  TraceCollector trace(status, 1);
  const double ahead = 5000;  // of the clock of the second host; messages travel for half a second
  trace.add(actions_event(1, 0, {action("0F0", 1, 2, -1, 1), action("0B0", 6, 7, 1, -1, 4)}));
  trace.add(actions_event(1, 1,
                          {action("1F0", 2.5 + ahead, 4 + ahead, 0, -1, 1),
                           action("1B0", 4 + ahead, 5.5 + ahead, -1, 0)}));
  const json file = trace.chrome_trace();
  for (const json& bar : of_phase(file, "X"))
    if (bar.at("name") == "1F0") BOOST_TEST(bar.at("ts") == 1.5e6);
  BOOST_TEST(file.at("otherData").at("clock_error_us") == 0.5e6);
  BOOST_TEST((file.at("otherData").at("clocks").at("b") ==
              json{{"ahead_us", 5000e6}, {"error_us", 0.5e6}}));
  BOOST_TEST(of_phase(file, "s").size() == 2u);
  BOOST_TEST(of_phase(file, "M")[4].at("args").at("name") == "rank 1 (replica 0, stage 1) on b");
}

/// Replicas send each other no messages, so that their clocks must have been measured.
BOOST_AUTO_TEST_CASE(clocks_of_hosts_that_were_measured_are_set_to_one) {
  json status = kStatus;
  status["ranks"][0]["host"] = "a";
  status["ranks"][1]["host"] = "b";
  TraceCollector trace(status, 1);
  const auto add = [&](int rank, double ahead_s, double error_s) {
    json event = actions_event(1, rank, {action("0F0", 7 + ahead_s, 8 + ahead_s, -1, -1)});
    event["clock"] = {{"ahead_s", ahead_s}, {"error_s", error_s}};
    trace.add(event);
  };
  add(0, 0, 0);
  add(1, -3000, 0.25);
  const json file = trace.chrome_trace();
  for (const json& bar : of_phase(file, "X")) BOOST_TEST(bar.at("ts") == 0);
  BOOST_TEST(file.at("otherData").at("clock_error_us") == 0.25e6);
}

BOOST_AUTO_TEST_CASE(collectives_of_buckets_may_be_under_way_at_once) {
  TraceCollector trace({{"ranks", json::array({{{"rank", 0}}})}}, 1);
  json event = actions_event(3, 0, {action("0B0", 1, 4, -1, -1)});
  for (const int bucket : {0, 1})
    event["collectives"].push_back({{"group", "replicas of stage 0"},
                                    {"op", "all-reduce"},
                                    {"bucket", bucket},
                                    {"begin_s", 2 + bucket},
                                    {"end_s", 5 + bucket}});
  trace.add(event);
  const json file = trace.chrome_trace();
  const auto begins = of_phase(file, "b"), ends = of_phase(file, "e");
  BOOST_REQUIRE(begins.size() == 2u);
  BOOST_REQUIRE(ends.size() == 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    BOOST_TEST(begins[i].at("id") == ends[i].at("id"));
    BOOST_TEST(begins[i].at("name") == "all-reduce");
    BOOST_TEST(begins[i].at("args").at("bucket") == static_cast<int>(i));
    BOOST_TEST(begins[i].at("ts") == 1e6 + 1e6 * static_cast<double>(i));
    BOOST_TEST(ends[i].at("ts") == 4e6 + 1e6 * static_cast<double>(i));
  }
  BOOST_TEST(begins[0].at("id") != begins[1].at("id"));
}

BOOST_AUTO_TEST_CASE(the_second_of_a_pair_has_its_own_track) {
  TraceCollector trace(kStatus, 1);
  trace.add(actions_event(
      3, 0, {action("0F1", 1, 4, -1, 1), action("0B0", 2, 5, 1, -1), action("0B1", 5, 6, 1, -1)}));
  trace.add(actions_event(3, 1, {action("1F1", 4, 5, 0, -1)}));
  std::map<int, std::vector<json>> tracks;
  for (const json& bar : of_phase(trace.chrome_trace(), "X"))
    tracks[bar.at("tid").get<int>()].push_back(bar.at("name"));
  BOOST_TEST(tracks.size() == 3u);
  BOOST_TEST((tracks.at(0) == std::vector<json>{"0F1", "0B1"}));
  BOOST_TEST((tracks.at(2) == std::vector<json>{"0B0"}));
}

/// A device runs forwards and backwards on streams of their own, ahead of which the host waits.
BOOST_AUTO_TEST_CASE(bars_of_a_track_do_not_overlap_where_streams_run_at_once) {
  TraceCollector trace({{"ranks", json::array({{{"rank", 0}}})}}, 1);
  trace.add(actions_event(
      3, 0,
      {action("0B0", 1, 10, 1, -1), action("0F1", 5, 20, -1, 1), action("0B1", 10, 15, 1, -1),
       action("0F2", 20, 25, -1, 1, 4), action("0B2", 15, 30, 1, -1, 12)}));
  std::map<int, std::map<double, double>> tracks;  // end by begin
  int waits = 0;
  for (const json& bar : of_phase(trace.chrome_trace(), "X")) {
    const double begin = bar.at("ts");
    BOOST_TEST(tracks[bar.at("tid")].emplace(begin, begin + bar.at("dur").get<double>()).second);
    waits += bar.at("cat") == "wait" ? 1 : 0;
  }
  BOOST_TEST(tracks.size() == 2u);
  BOOST_TEST(waits == 0);  // the device was busy
  for (const auto& [track, bars] : tracks) {
    double free = 0;
    for (const auto& [begin, end] : bars) BOOST_TEST(begin >= std::exchange(free, end));
  }
}

BOOST_AUTO_TEST_CASE(only_whole_steps_count_and_no_more_than_asked_for) {
  TraceCollector trace(kStatus, 2);
  trace.add(actions_event(1, 1, {action("1B0", 0, 1, -1, 0)}));  // began in the middle of step 1
  for (std::int64_t step = 2; step <= 9; ++step) add_step(trace, step, 10.0 * step);
  BOOST_TEST(trace.num_complete() == 2);
  for (const json& bar : of_phase(trace.chrome_trace(), "X"))
    BOOST_TEST((bar.at("args").at("step") == 2 || bar.at("args").at("step") == 3));
}

BOOST_AUTO_TEST_CASE(another_membership_changes_who_must_be_there) {
  TraceCollector trace(kStatus, 1);
  trace.add({{"kind", "membership"}, {"ranks", json::array({{{"rank", 0}}})}});
  trace.add(actions_event(3, 0, {action("0F0", 0, 1, -1, -1)}));
  BOOST_TEST(trace.done());
}

BOOST_AUTO_TEST_CASE(an_arrow_begins_where_the_message_left) {
  for (const auto& [sent_s, begins_us] : {std::pair{3.25, 1.25e6}, {4.01, 1.998e6}}) {
    TraceCollector trace(kStatus, 1);
    trace.add(actions_event(1, 0, {action("0B0", 5, 6, 1, -1)}));
    json backward = action("1B0", 2, 4, -1, 0);
    backward["sent_s"] = sent_s;
    trace.add(actions_event(1, 1, {backward}));
    const auto begins = of_phase(trace.chrome_trace(), "s");
    BOOST_REQUIRE(begins.size() == 1u);
    BOOST_TEST(begins[0].at("ts").get<double>() == begins_us, boost::test_tools::tolerance(1e-9));
  }
}

BOOST_AUTO_TEST_CASE(an_arrow_without_its_other_end_is_left_out) {
  TraceCollector trace(kStatus, 1);
  trace.add(actions_event(3, 0, {action("0F0", 0, 1, -1, 1)}));
  trace.add(actions_event(3, 1, {action("no action", 0, 1, 0, -1)}));
  BOOST_TEST(trace.done());
  BOOST_TEST(of_phase(trace.chrome_trace(), "s").empty());
  BOOST_TEST(of_phase(trace.chrome_trace(), "X").size() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
