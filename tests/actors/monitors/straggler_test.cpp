#include "actors/monitors/straggler.h"

#include <sched.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <random>

#include "tests/support/seed.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(straggler_test)

namespace {

using namespace actors;

constexpr int kLong = 240;  // steps

/// Steps of pp stages in dp replicas; `busy` says how long a stage computes in a step.
template <typename Busy>
std::vector<StragglerFound> found_in(int pp, int dp, Busy&& busy) {
  StragglerScores scores;
  std::vector<StragglerFound> found;
  for (std::int64_t step = 1; step <= kLong; ++step) {
    StepReport::Measured all;
    for (int replica = 0; replica < dp; ++replica)
      for (int stage = 0; stage < pp; ++stage)
        all.stages.push_back(
            {.replica = replica, .stage = stage, .busy_s = busy(step, replica, stage)});
    const StepReport report{.step = step,
                            .replicas = {std::make_shared<StepReport::Measured>(all)}};
    for (const auto& one : scores.on_step(report)) found.push_back(one);
  }
  return found;
}

}  // namespace

BOOST_AUTO_TEST_CASE(uneven_stages_that_stay_as_they_are_are_no_stragglers) {
  std::mt19937_64 random(fresh_seed());
  std::uniform_real_distribution<double> noise(0.8, 1.2);
  const auto found = found_in(
      4, 1, [&](std::int64_t, int, int stage) { return 0.1 * (1 + stage) * noise(random); });
  BOOST_TEST(found.empty());
}

BOOST_AUTO_TEST_CASE(a_stage_that_gets_slow_is_found_once_in_a_while) {
  const auto found = found_in(3, 1, [](std::int64_t step, int, int stage) {
    return stage == 1 && step > 150 && step <= 200 ? 0.3 : 0.1;
  });
  BOOST_REQUIRE(found.size() == 1u);
  BOOST_TEST(found[0].stage == 1);
  BOOST_TEST(found[0].score >= StragglerScores::kScore);
  BOOST_TEST(found[0].busy_s == 0.3);
  BOOST_TEST(found[0].usual_busy_s == 0.1, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(a_machine_that_slows_down_as_a_whole_has_no_straggler) {
  const auto found = found_in(3, 1, [](std::int64_t step, int, int stage) {
    return (step > 150 ? 0.3 : 0.1) * (1 + stage);
  });
  BOOST_TEST(found.empty());
}

BOOST_AUTO_TEST_CASE(a_replica_that_is_slow_from_the_start_is_found_by_its_twins) {
  const auto found = found_in(2, 3, [](std::int64_t, int replica, int stage) {
    return replica == 2 && stage == 0 ? 0.4 : 0.1 * (1 + stage);
  });
  BOOST_REQUIRE(!found.empty());
  for (const auto& f : found) {
    BOOST_TEST(f.replica == 2);
    BOOST_TEST(f.stage == 0);
    BOOST_TEST(f.usual_busy_s == 0.1, boost::test_tools::tolerance(1e-9));
  }
  BOOST_TEST(found.size() == 3u);  // reported again after a pause of 100 steps
}

BOOST_AUTO_TEST_CASE(a_single_stage_is_measured_by_its_own_past) {
  const auto found =
      found_in(1, 1, [](std::int64_t step, int, int) { return step > 200 ? 0.5 : 0.1; });
  BOOST_TEST(found.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_watch_knows_what_it_lately_told) {
  Hub hub;
  const StragglerWatch watch(hub);
  const auto told = hub.subscribe({.kinds = mask_of<StragglerFound>()});
  const auto publish = [&](std::int64_t step, double busy_s) {
    const StepReport::Measured all{
        .stages = {{.stage = 0, .busy_s = 0.1}, {.stage = 1, .busy_s = busy_s}}};
    hub.publish({.step = step,
                 .body = StepCommitted{
                     {.step = step, .replicas = {std::make_shared<StepReport::Measured>(all)}}}});
  };
  std::int64_t step = 0;
  while (step < 100) publish(++step, 0.1);
  BOOST_TEST(watch.recent().empty());
  while (step < 130) publish(++step, 0.3);
  while (told->take(1).events.empty()) told->wait(std::chrono::seconds(1));
  while (watch.recent().empty()) sched_yield();
  BOOST_TEST(watch.recent().at(0).stage == 1);
  while (step < 300) publish(++step, 0.1);
  while (!watch.recent().empty()) sched_yield();  // the test's timeout bounds it
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
