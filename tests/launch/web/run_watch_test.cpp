#include "launch/watch/run_watch.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "launch/control/event_json.h"
#include "launch/watch/run_now.h"
#include "tests/launch/step_event.h"
#include "tests/launch/watched_run.h"
#include "tests/support/xml.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(run_watch_test)

using namespace watch;
using nlohmann::json;

BOOST_AUTO_TEST_CASE(every_part_is_well_formed_at_every_moment) {
  RunWatch watch = watched();
  const auto check = [&] {
    for (const bool routine : {false, true})
      for (const auto scale : {launch::Scale::linear, launch::Scale::logarithmic})
        for (const auto& [id, markup] :
             parts_of(watch.now(kNow), {.scale = scale, .routine = routine}))
          BOOST_CHECK_NO_THROW(parse_xml("<x>" + markup + "</x>"));
  };
  check();
  watch.apply(members(2, 1));
  check();
  watch.apply(step_event(1, 3.5));
  check();
  watch.apply(event_of(DirectorActivity{.mailbox_depth = 3}, 1));
  watch.apply(event_of(FailureDetected{.cause = "rank 1 was killed by <script>"}, 1));
  check();
  watch.apply(step_event(2, -1));
  watch.apply(event_of(RunEnded{.outcome = {.exit_code = 70, .step = 2, .reason = "it broke"}}, 2));
  check();
  BOOST_TEST(watch.now(kNow).ended());
}

BOOST_AUTO_TEST_CASE(hosts_are_a_part_of_a_run_on_several) {
  RunWatch watch = watched();
  const auto hear = [&](const char* host, const char* state, const char* cause = "") {
    watch.apply(event_of(HostChanged{.host = host, .state = state, .cause = cause}));
  };
  hear("<host>", "joined");
  watch.apply(members(2, 1));
  BOOST_TEST(!parts_of(watch.now(kNow), {}).contains("hosts"));  // it is the only one
  BOOST_TEST(!has(part_of(watch.now(kNow), "mesh"), "stage 0 on"));
  hear("h1", "lost", "silence");
  RunEvent step = step_event(1, 3.5);
  StepReport& report = std::get<StepCommitted>(step.body).report;
  StepReport::Measured measured = *report.replicas.at(0);
  measured.stages.at(0).host_bytes = 2048;
  measured.stages.at(0).network_bytes = 512;
  report.replicas = {std::make_shared<StepReport::Measured>(measured)};
  watch.apply(step);
  const std::string hosts = part_of(watch.now(kNow), "hosts");
  for (const char* part :
       {"&lt;host&gt;", "joined", "0-1", "2.0 KiB", "512 B", "lost", "1 time", "silence", "none"})
    BOOST_TEST(has(hosts, part), part << " is not in " << hosts);
  BOOST_CHECK_NO_THROW(parse_xml("<x>" + hosts + "</x>"));
  BOOST_TEST(has(part_of(watch.now(kNow), "mesh"), "stage 0 on &lt;host&gt;"));
  BOOST_TEST(has(part_of(watch.now(kNow), "events"), "h1: lost: silence"));
}

BOOST_AUTO_TEST_CASE(a_watch_that_begins_late_knows_the_hosts_by_the_status) {
  RunWatch watch = watched();
  watch.begin({.state = "running",
               .ranks = {{.rank = 0, .host = "h0"}, {.rank = 1, .stage = 1, .host = "h1"}},
               .hosts = {{.host = "h0", .state = "joined"},
                         {.host = "h1", .state = "joined", .losses = 2}}},
              0);
  const auto hosts = watch.now(kNow).hosts();
  BOOST_REQUIRE(hosts.size() == 2u);
  BOOST_TEST((hosts[1].losses == 2 && hosts[1].ranks == std::vector<int>{1}));
}

BOOST_AUTO_TEST_CASE(the_state_is_what_happened_last) {
  RunWatch watch = watched();
  const auto doing = [&] { return watch.now(kNow).doing; };
  BOOST_TEST(doing() == "starting");
  watch.apply(members(2, 1));
  BOOST_TEST(doing() == "starting");
  watch.apply(step_event(1, 3));
  BOOST_TEST(doing() == "training");
  RunEvent waits = event_of(
      RankActivity{.state = "waiting", .waiting_for = "a credit", .resident_bytes = 5 << 20}, 1);
  waits.rank = 1;
  watch.apply(waits);
  BOOST_TEST(has(part_of(watch.now(kNow), "mesh"), "waits for a credit"));
  RunEvent done = event_of(RankActivity{.state = "prepared"}, 1);
  done.rank = 0;
  watch.apply(done);
  BOOST_TEST((mood_of(watch.now(kNow).ranks[0]) == launch::RankMood::waits));
  RunEvent failure = event_of(FailureDetected{.cause = "killed"}, 1);
  failure.rank = 1;
  BOOST_TEST(has(part_of(watch.now(kNow), "head"), " left"));
  watch.apply(failure);
  BOOST_TEST(!has(part_of(watch.now(kNow), "head"), " left"));  // no step is computed
  BOOST_TEST(busy_share(watch.now(kNow).ranks[1]) == 0);
  for (const char* gone : {"a credit", "5.0 MiB"})
    BOOST_TEST(!has(part_of(watch.now(kNow), "mesh"), gone), gone);
  BOOST_TEST(doing() == "recovering");
  BOOST_TEST(watch.now(kNow).ranks[1].state == "lost");
  BOOST_TEST(has(part_of(watch.now(kNow), "mesh"), "rank lost"));
  watch.apply(event_of(PhaseBegun{.phase = "move"}, 1));
  BOOST_TEST(doing() == "recovering: move");
  watch.apply(members(2, 1));
  watch.apply(step_event(2, 3));
  BOOST_TEST(doing() == "training");
  watch.apply(event_of(PhaseBegun{.phase = "spawn"}, 2));
  BOOST_TEST(doing() == "changing: spawn");
  watch.apply(event_of(RunEnded{.outcome = {.exit_code = 0, .step = 2, .reason = "finished"}}, 2));
  BOOST_TEST(doing() == "finished");
  BOOST_TEST(has(part_of(watch.now(kNow), "head"), "ended in order"));
}

BOOST_AUTO_TEST_CASE(steps_that_are_computed_again_are_shown_as_progress) {
  RunWatch watch = watched();
  watch.apply(members(2, 1));
  for (int step = 1; step <= 9; ++step) watch.apply(step_event(step, 3));
  const double steps_s = watch.now(kNow).sums.steps_s;
  const CatchUp way{.back_to = 4, .reached = 9};
  watch.apply(event_of(FailureDetected{.cause = "killed"}, 9));
  watch.apply(event_of(WentBack{.way = way, .from = "checkpoint"}, 4));
  watch.apply(members(2, 1));
  watch.apply(event_of(PhaseBegun{.phase = "catch up"}, 4));
  BOOST_TEST(watch.now(kNow).state() == "recovering: catch up");
  watch.apply(event_of(
      StepAgain{.report = std::get<StepCommitted>(step_event(6, 2.5).body).report, .way = way}, 6));
  RunNow now = watch.now(kNow);
  BOOST_TEST(now.state() == "catching up");
  BOOST_TEST(now.step() == 6);
  BOOST_TEST(now.reached() == 9);
  BOOST_TEST(now.newest->loss == 2.5);
  BOOST_TEST(now.loss.curve().raw.back().x == 9);
  BOOST_TEST(now.sums.steps_s == steps_s);
  BOOST_TEST(has(part_of(now, "head"), "2 of 5 steps done again, "));
  BOOST_TEST(has(part_of(now, "events"), "goes back to step 4, 5 steps to compute again"));

  // Whoever comes meanwhile sees the same.
  RunWatch late = watched();
  late.begin({.state = "catching up", .step = 6, .configuration = 2, .catch_up = way}, 5);
  BOOST_TEST(late.now(kNow).state() == "catching up");
  BOOST_TEST(late.now(kNow).reached() == 9);

  watch.apply(step_event(10, 3));
  now = watch.now(kNow);
  BOOST_TEST(now.state() == "training");
  BOOST_TEST(now.reached() == 10);
  BOOST_TEST(now.sums.steps_s == steps_s);  // the recovery's first step is a part of it
}

BOOST_AUTO_TEST_CASE(the_mesh_shows_every_rank_and_what_travels) {
  RunWatch watch = watched();
  watch.apply(members(2, 2));
  RunEvent activity = event_of(RankActivity{
      .state = "waiting", .waiting_for = "F of microbatch 3", .resident_bytes = 5 << 20});
  activity.rank = 3;
  watch.apply(activity);
  RunEvent step = step_event(1, 3);
  std::get<StepCommitted>(step.body).report.replicas = {std::make_shared<StepReport::Measured>(
      StepReport::Measured{.stages = {{.replica = 1, .stage = 1, .busy_s = 3, .idle_s = 1}},
                           .edges = {{.from = 2, .to = 3, .bytes = 3072, .wait_s = 0.015},
                                     {.from = 3, .to = 2, .bytes = 6144}}})};
  watch.apply(step);
  const std::string mesh = part_of(watch.now(kNow), "mesh");
  const auto tree = parse_xml("<x>" + mesh + "</x>");
  const auto labels = attributes_of(tree, "div", "aria-label");
  BOOST_TEST(labels.count("replica 1") == 1u);
  for (const char* text :
       {"rank 0: replica 0, stage 0", "rank 3: replica 1, stage 1", "waits for F of microbatch 3",
        "75 % busy", "5.0 MiB", "100.0 KiB/s", "200.0 KiB/s", "50 % waited", "&lt;host&gt;"})
    BOOST_TEST(has(mesh, text), text);
}

BOOST_AUTO_TEST_CASE(a_long_run_is_shown_whole_by_few_points) {
  RunWatch watch = watched(40'000);
  for (int step = 1; step <= 20'000; ++step) watch.apply(step_event(step, step == 14'000 ? 9 : 2));
  const std::string loss = part_of(watch.now(kNow), "loss");
  BOOST_TEST(loss.size() < 400'000u);
  BOOST_TEST(has(loss, "M0.05 "));  // the first step
  BOOST_TEST(has(loss, "L700"));    // the peak
  BOOST_TEST(has(loss, "L1000 "));  // the last one
  BOOST_TEST(has(part_of(watch.now(kNow), "head"), "step 20,000 of 40,000"));
}

BOOST_AUTO_TEST_CASE(a_resumed_run_begins_where_it_began) {
  launch::WatchedRun run{.name = "run", .max_steps = 10};
  for (int step = 1; step <= 3; ++step)
    run.past_steps.steps.push_back({.step = step, .loss = 5.0 - step, .tokens = 1, .step_s = 1});
  run.past_events = {json{{"kind", "failure"}, {"time", 5}, {"step", 2}, {"cause", "long ago"}}};
  RunWatch watch(run);
  watch.apply(step_event(4, 1));
  const RunNow now = watch.now(kNow);
  BOOST_TEST(now.loss.curve().raw.size() == 4u);
  BOOST_TEST(has(part_of(now, "events"), "long ago"));
}

BOOST_AUTO_TEST_CASE(a_watch_may_begin_within_a_run) {
  const RunEvent failure = event_of(FailureDetected{.cause = "rank 1 was killed"}, 2, 105.25);
  launch::WatchedRun run{.name = "run", .max_steps = 10};
  run.past_steps.evaluations = {{.step = 2, .loss = 5}};
  run.past_events = {launch::to_json(failure)};
  RunWatch watch(run);
  watch.begin({.state = "running",
               .step = 2,
               .configuration = 1,
               .ranks = {{.rank = 0, .state = "running", .resident_bytes = 7}}},
              12.5);
  RunNow now = watch.now(kNow);
  BOOST_TEST(now.doing == "training");
  BOOST_TEST(now.left_s == 12.5);
  BOOST_TEST(now.ranks.size() == 1u);
  BOOST_TEST(now.ranks[0].resident_bytes == 7u);
  BOOST_TEST(now.shape() == "pp 1");
  // What the run's files had already may come again; it is told once.
  watch.apply(failure);
  watch.apply(event_of(EvaluationDone{.loss = 5}, 2, 106));
  watch.apply(event_of(EvaluationDone{.loss = 4}, 3, 107));
  now = watch.now(kNow);
  BOOST_TEST(now.history.timeline.size() == 1u);
  BOOST_TEST(std::ranges::count(now.timeline, "failure", &launch::TimelineEntry::kind) == 1);
  BOOST_TEST(now.evaluations.size() == 2u);
  BOOST_TEST(now.doing == "recovering");
}

BOOST_AUTO_TEST_CASE(a_step_of_which_a_part_was_lost_makes_no_picture) {
  RunWatch watch = watched();
  watch.apply(members(1, 1));
  const auto actions = [&](std::int64_t step, bool complete) {
    RunEvent event = event_of(
        ActionsTraced{.actions = {{.name = "0F0", .begin_s = 1, .end_s = 2}}, .complete = complete},
        step);
    event.rank = 0;
    watch.apply(event);
    const RunNow now = watch.now(kNow);
    return now.picture ? now.picture->step : 0;
  };
  BOOST_TEST(actions(1, false) == 0);
  BOOST_TEST(actions(1, true) == 1);
  watch.miss();
  BOOST_TEST(actions(2, false) == 1);
  BOOST_TEST(actions(2, true) == 1);
  BOOST_TEST(actions(3, true) == 3);
}

BOOST_AUTO_TEST_CASE(the_bubble_is_that_of_several_steps) {
  RunWatch watch = watched();
  watch.apply(members(2, 1));
  BOOST_TEST(!watch.now(kNow).bubble);
  // Two microbatches by 1f1b, of which the second stage's actions take `late` each.
  const auto record = [&](std::int64_t step, double late) {
    const auto send = [&](int rank, const std::vector<std::string>& names, double duration) {
      ActionsTraced part{.complete = true};
      double time = 0;
      for (const std::string& name : names) {
        part.actions.push_back({.name = name, .begin_s = time, .end_s = time + duration});
        time += duration;
      }
      RunEvent event = event_of(std::move(part), step);
      event.rank = rank;
      watch.apply(event);
    };
    send(0, {"0F0", "0F1", "0B0", "0B1"}, 1);
    send(1, {"1F0", "1B0", "1F1", "1B1"}, late);
    return watch.now(kNow).bubble.value_or(-1);
  };
  const auto exactly = boost::test_tools::tolerance(1e-9);
  BOOST_TEST(record(1, 1) == 1 / 3.0, exactly);              // 8 of 2 * 6
  BOOST_TEST(record(2, 2) == (1 / 3.0 + 0.4) / 2, exactly);  // 12 of 2 * 10
  BOOST_TEST(watch.now(kNow).bubble.value() == (1 / 3.0 + 0.4) / 2, exactly);
}

BOOST_AUTO_TEST_CASE(gpus_are_told_of_where_there_are_some) {
  const auto shown = [](const launch::PeakRate& peak, std::uint64_t memory) {
    RunWatch watch({.name = "run", .max_steps = 10, .peak = peak});
    watch.apply(members(1, 1));
    RunEvent event = step_event(1, 3.5);
    std::get<StepCommitted>(event.body).report.replicas = {
        std::make_shared<StepReport::Measured>(StepReport::Measured{
            .stages = {{.device_used_bytes = memory / 2, .device_total_bytes = memory}},
            .edges = {}})};
    watch.apply(event);
    const RunNow now = watch.now(kNow);
    return part_of(now, "facts") + part_of(now, "mesh");
  };
  const std::string known = shown({.flop_per_token = 6, .flop_per_s = 40000}, 8 << 20);
  BOOST_TEST(has(known, "50.0 %"));
  BOOST_TEST(has(known, "4.0 MiB of 8.0 MiB"));
  BOOST_TEST(!has(shown({}, 0), "peak rate"));
}

BOOST_AUTO_TEST_CASE(a_mixture_shows_its_sources) {
  RunWatch watch = watched();
  watch.apply(step_event(1, 3.5));
  watch.apply(step_event(2, 2.5));
  const std::string sources = part_of(watch.now(kNow), "sources");
  for (const char* text : {"books", "code", "3.5000", "60.0 %", "120"})
    BOOST_TEST(has(sources, text), text << " is not in " << sources);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
