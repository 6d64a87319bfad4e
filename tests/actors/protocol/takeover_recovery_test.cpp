#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <string>

#include "tests/support/run_specs.h"
#include "tests/support/seed.h"
#include "tests/support/simulated_takeover.h"

// The director's protocol against a simulated cluster of several hosts whose director is lost at
// every point, alone or with its host, among the losses of workers and other hosts.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(takeover_recovery_test)

namespace {

/// A run on three or four hosts.
RunSpec spread_run(std::uint64_t seed) {
  const int dp = seed % 5 == 0 ? 2 : 1;
  RunSpec spec = test::small_run(1 + static_cast<int>(seed % 3), dp);
  spec.max_steps = 16;
  spec.batch.global = 8;
  const int hosts = 3 + static_cast<int>(seed / 3 % 2);
  for (int i = 0; i < hosts; ++i)
    spec.cluster.hosts.push_back(
        {.name = "h" + std::to_string(i), .slots = 2 + static_cast<int>(seed / 11 % 2)});
  spec.recovery.spare_hosts = static_cast<int>(seed / 13 % 2);
  spec.recovery.spares = static_cast<int>(seed / 17 % 2);
  spec.recovery.restarts_per_hour = 1000;
  if (seed % 4 == 0) spec.checkpoint.interval = 5;
  if (seed % 9 == 0)
    spec.eval = {.interval = 4, .steps = 2, .sets = {{.samples = 2 * spec.batch.global}}};
  if (seed % 8 < 5) spec.validation = RunSpec::Validation::post;
  return spec;
}

}  // namespace

/// Whatever comes, every step is committed once, with the bits that it had, and evaluated once.
BOOST_AUTO_TEST_CASE(runs_go_on_whose_director_is_lost) {
  const std::uint64_t first = test::fresh_seed();
  const int runs = test::number_of("TROUPE_RUNS", 40'000);
  int taken_over = 0, from_memory = 0;
  for (int i = 0; i < runs; ++i) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(i);
    TakeoverSimulation simulation(spread_run(seed), seed, 1 + static_cast<int>(seed / 2 % 3));
    simulation.strike_hosts({.losses = static_cast<int>(seed / 5 % 2),
                             .drains = 0,
                             .joins = static_cast<int>(seed / 4 % 3)});
    const auto result =
        simulation.run(static_cast<int>(seed / 7 % 3), static_cast<int>(seed / 8 % 2));
    const auto& [exit_code, step, reason] = result.outcome;
    const std::string what = "seed " + std::to_string(seed) + ": " + result.broken + reason;
    BOOST_REQUIRE_MESSAGE(result.broken.empty(), what);
    BOOST_REQUIRE_MESSAGE(exit_code == 0 && step == 16, what);
    BOOST_REQUIRE_MESSAGE(std::ssize(result.committed) == 16, what);
    BOOST_REQUIRE_MESSAGE(result.published.contains(16), what);
    taken_over += simulation.taken_over();
    from_memory += simulation.from_memory();
  }
  BOOST_TEST_MESSAGE("taken over " << taken_over << ", from memory " << from_memory);
  BOOST_TEST(taken_over > runs / 2);
  BOOST_TEST(from_memory > taken_over / 2);
}

/// What a worker has told before its host went is heard after the host has come again, too late.
BOOST_AUTO_TEST_CASE(workers_of_a_host_that_joins_anew_are_not_adopted) {
  constexpr std::uint64_t kWorker = 1234;
  const Host host{.name = "h0", .slots = 2};
  RunSpec spec = test::small_run(1, 1);
  spec.cluster.hosts = {host};
  DirectorProtocol protocol(
      spec, {.seed = 1, .left = {{.incarnation = kWorker, .host = "h0"}}, .left_by = "a test"});
  protocol.on(HostJoined{.host = host});
  BOOST_TEST(protocol.adopts(kWorker));
  protocol.on(HostJoined{.host = host});
  BOOST_TEST(!protocol.adopts(kWorker));
  protocol.on(MemberAdopted{.member = {.id = 0, .incarnation = kWorker, .host = "h0"}, .held = {}});
  BOOST_TEST(!protocol.roster().contains(kWorker));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
