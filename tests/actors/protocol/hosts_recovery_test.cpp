#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <set>
#include <string>

#include "actors/topology/hosts.h"
#include "tests/support/run_specs.h"
#include "tests/support/seed.h"
#include "tests/support/simulated_cluster.h"

// The director's protocol against a simulated cluster of several hosts, which are lost with all
// their workers, are to be left, and join anew, at every point.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(hosts_recovery_test)

namespace {

/// A run on two to four hosts, which may have spare hosts, slots and processes.
RunSpec spread_run(std::uint64_t seed) {
  const int dp = seed % 5 == 0 ? 2 : 1, tp = seed % 7 == 0 ? 2 : 1;
  RunSpec spec = test::small_run(1 + static_cast<int>(seed % 3), dp);
  spec.model.num_key_value_heads = 2;
  spec.mesh.tp = tp;
  spec.max_steps = 16;
  spec.batch.global = 8;
  const int hosts = 2 + static_cast<int>(seed / 3 % 3);
  const int stages = spec.mesh.pp * dp;
  const int most = (stages + hosts - 1) / hosts + static_cast<int>(seed / 11 % 2);
  for (int i = 0; i < hosts; ++i)  // some have a slot that no whole stage fits into
    spec.cluster.hosts.push_back({.name = "h" + std::to_string(i),
                                  .slots = most * tp + static_cast<int>(seed / 19 + i) % 2});
  spec.recovery.spare_hosts = static_cast<int>(seed / 13 % 2);
  spec.recovery.spares = static_cast<int>(seed / 17 % 2);
  if (seed % 8 < 5) spec.validation = RunSpec::Validation::post;
  if (seed % 4 == 0) spec.checkpoint.interval = 5;
  if (seed % 9 == 0)
    spec.eval = {.interval = 4, .steps = 2, .sets = {{.samples = 2 * spec.batch.global}}};
  return spec;
}

/// Gives some stages hosts of their own: where they lie as the run starts, and maybe others.
void give_hosts_to_stages(RunSpec& spec, std::uint64_t seed) {
  std::vector<std::set<std::string>> own(static_cast<std::size_t>(spec.mesh.pp));
  const auto places = place_ranks(spec.mesh, spec.cluster.hosts, host_rules(spec));
  for (int rank = 0; rank < spec.num_ranks(); ++rank)
    own[static_cast<std::size_t>(place_of(spec.mesh, rank).stage)].insert(
        spec.cluster.hosts[static_cast<std::size_t>(places[static_cast<std::size_t>(rank)])].name);
  for (std::size_t stage = 0; stage < own.size(); ++stage) {
    if ((seed / 23 + stage) % 3 == 0) own[stage].clear();
    if ((seed / 29 + stage) % 2 == 0 && !own[stage].empty())
      own[stage].insert(spec.cluster.hosts[(seed / 31 + stage) % spec.cluster.hosts.size()].name);
    spec.cluster.stage_hosts.emplace_back(own[stage].begin(), own[stage].end());
  }
}

}  // namespace

/// Each loss of a host counts once: the run stops if there are more losses than faults, and if a
/// host is lost or left when the others may have no stage that remains. Whatever comes, no rank is
/// on a host that is lost or to be left, or on one of another stage, none has more ranks than
/// slots, and every step is committed once.
BOOST_AUTO_TEST_CASE(hosts_come_and_go_and_every_step_is_committed_once) {
  const std::uint64_t first = test::fresh_seed();
  const int runs = test::number_of("TROUPE_RUNS", 40'000);
  int lost = 0, left = 0, grown = 0, shrunk = 0, answered = 0, ended = 0;
  for (int i = 0; i < runs; ++i) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(i);
    RunSpec spec = spread_run(seed);
    const bool stages_have_hosts = seed % 8 == 1 && spec.mesh.pp > 1;
    if (stages_have_hosts) give_hosts_to_stages(spec, seed);
    const int deaths = static_cast<int>(seed / 2 % 3), losses = static_cast<int>(seed / 5 % 4);
    const int failed_starts = seed % 10 == 3 ? 1 : 0;
    spec.recovery.restarts_per_hour = deaths + losses + failed_starts;
    if (seed % 6 == 0) spec.recovery.on_failure = RunSpec::OnFailure::shrink;
    Simulation simulation(spec, seed);
    simulation.lack({.starts = failed_starts, .saves = static_cast<int>(seed / 36 % 2)});
    simulation.strike_hosts({.losses = losses,
                             .drains = static_cast<int>(seed / 7 % 3),
                             .joins = static_cast<int>(seed / 4 % 4)});
    const auto result =
        simulation.run(deaths, static_cast<int>(seed / 8 % 3), static_cast<int>(seed / 16 % 2));
    const auto& [exit_code, step, reason] = result.outcome;
    const std::string what = "seed " + std::to_string(seed) + ": " + result.broken + reason;
    BOOST_REQUIRE_MESSAGE(result.broken.empty(), what);
    if (stages_have_hosts && (reason.ends_with("no smaller cluster can go on") ||
                              reason.ends_with("can hold the run"))) {
      ++ended;
      continue;
    }
    BOOST_REQUIRE_MESSAGE(exit_code == 0 && step == spec.max_steps, what);
    BOOST_REQUIRE_MESSAGE(std::ssize(result.committed) == spec.max_steps, what);
    BOOST_REQUIRE_MESSAGE(result.published.contains(spec.max_steps), what);
    lost += result.hosts_lost;
    left += result.hosts_left;
    grown += result.grown;
    shrunk += result.shrunk;
    answered += result.answered;
  }
  BOOST_TEST_MESSAGE("lost " << lost << ", left " << left << ", grown " << grown << ", shrunk "
                             << shrunk << ", answered " << answered << ", ended " << ended);
  BOOST_TEST(ended < runs / 400);
  BOOST_TEST(lost > runs / 2);
  BOOST_TEST(left > runs / 4);
  BOOST_TEST(grown > runs / 20);
  BOOST_TEST(shrunk > runs / 20);
}

/// A drain is no failure, and nothing is computed again for it.
BOOST_AUTO_TEST_CASE(hosts_that_are_left_cost_nothing) {
  const std::uint64_t first = test::fresh_seed();
  int left = 0;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    const std::uint64_t seed = first + i;
    RunSpec spec = spread_run(seed);
    spec.recovery.on_failure = RunSpec::OnFailure::stop;
    spec.recovery.restarts_per_hour = 0;
    Simulation simulation(spec, seed);
    simulation.strike_hosts({.losses = 0,
                             .drains = 1 + static_cast<int>(seed / 7 % 3),
                             .joins = static_cast<int>(seed / 4 % 2)});
    const auto result = simulation.run(0, static_cast<int>(seed / 8 % 3));
    const std::string what =
        "seed " + std::to_string(seed) + ": " + result.broken + result.outcome.reason;
    BOOST_REQUIRE_MESSAGE(result.broken.empty(), what);
    BOOST_REQUIRE_MESSAGE(result.outcome.exit_code == 0, what);
    BOOST_REQUIRE_MESSAGE(result.lost_parts == 0 && result.went_back == 0, what);
    left += result.hosts_left;
  }
  BOOST_TEST(left > 5'000);
}

/// A run whose last host is to be left is saved and ends with 75; one that has lost its last host
/// ends. Neither hangs.
BOOST_AUTO_TEST_CASE(the_last_host_may_go) {
  const std::uint64_t first = test::fresh_seed();
  int saved = 0, failed = 0;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const std::uint64_t seed = first + i;
    RunSpec spec = spread_run(seed);
    spec.recovery.restarts_per_hour = 1000;
    const bool drains = seed % 2 == 0;
    Simulation simulation(spec, seed);
    simulation.strike_hosts({.losses = drains ? 0 : 5,
                             .drains = drains ? 5 : 0,
                             .joins = static_cast<int>(seed / 4 % 2),
                             .to_the_last = true});
    const auto result = simulation.run(0, static_cast<int>(seed / 8 % 2));
    const auto& [exit_code, step, reason] = result.outcome;
    const std::string what = "seed " + std::to_string(seed) + ": " + result.broken + reason;
    BOOST_REQUIRE_MESSAGE(result.broken.empty(), what);
    if (exit_code == 0) continue;
    BOOST_REQUIRE_MESSAGE(exit_code == (drains ? 75 : 70), what);
    if (!drains) {
      ++failed;
      continue;
    }
    BOOST_REQUIRE_MESSAGE(step == 0 || result.published.contains(step), what);
    ++saved;
  }
  BOOST_TEST(saved > 100);
  BOOST_TEST(failed > 100);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
