#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <string>

#include "tests/support/run_specs.h"
#include "tests/support/seed.h"
#include "tests/support/simulated_cluster.h"

// The director's protocol against a simulated cluster: workers that hold state by unit, messages
// that are late or come twice, deaths at every point. The test checks promises, not paths.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(recovery_test)

/// 100,000 seeded runs, or as many as TROUPE_RUNS says, through deaths, orders and late and
/// repeated messages: none hangs, skips a step, commits one differently, evaluates one twice, goes
/// back without a word or loses an order. If a
/// step's loss is not finite, the step before it is saved and named, whichever worker dies
/// meanwhile, and nothing beyond it is committed.
BOOST_AUTO_TEST_CASE(every_run_ends_with_every_step_committed_once) {
  const std::uint64_t first = test::fresh_seed();
  const int runs = test::number_of("TROUPE_RUNS", 100'000);
  int saved = 0, went_back = 0, evaluated = 0;
  for (int i = 0; i < runs; ++i) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(i);
    RunSpec spec = test::small_run(1 + static_cast<int>(seed % 3), seed % 5 == 0 ? 2 : 1);
    spec.max_steps = 12;
    spec.batch.global = 8;
    spec.recovery.restarts_per_hour = 1000;
    if (seed % 7 == 0) spec.recovery.spares = 1;
    if (seed % 4 == 0) spec.checkpoint.interval = 5;
    if (seed % 9 == 0)
      spec.eval = {
          .interval = 4, .steps = 2, .sets = {{.samples = 2 * spec.batch.global}, {.samples = 1}}};
    spec.checkpoint.initial = seed % 11 == 0;
    if (seed % 10 == 0) spec.data_parallel.division = stages::StateDivision::optim;
    if (seed % 8 < 5) spec.validation = RunSpec::Validation::post;
    const std::int64_t refused = seed % 6 == 1 ? 1 + static_cast<std::int64_t>(seed / 6 % 12) : 0;
    // A run that fails saves what memory has, which may be an older step.
    if (seed % 13 < 4 && refused == 0) spec.recovery.copy_interval = 3;
    const std::int64_t last = refused > 0 ? refused - 1 : 12;
    Simulation simulation(spec, seed, refused);
    const auto result = simulation.run(static_cast<int>(seed % 4), static_cast<int>(seed / 4 % 3),
                                       static_cast<int>(seed / 12 % 4));
    saved += result.saved;
    went_back += result.went_back;
    evaluated += static_cast<int>(result.evaluated.size());
    const auto& [exit_code, step, reason] = result.outcome;
    const std::string what = "seed " + std::to_string(seed) + ": " + result.broken + reason;
    BOOST_REQUIRE_MESSAGE(result.broken.empty(), what);
    BOOST_REQUIRE_MESSAGE(exit_code == (refused > 0 ? 70 : 0) && step == last, what);
    BOOST_REQUIRE_MESSAGE(std::ssize(result.committed) == last, what);
    const bool saves = last > 0 || spec.checkpoint.initial;
    BOOST_REQUIRE_MESSAGE(result.published.contains(last) == saves, what);
    const bool named = reason.find(checkpoint_path(spec, last)) != std::string::npos;
    BOOST_REQUIRE_MESSAGE(named == (refused > 0 && saves), what);
  }
  BOOST_TEST(saved > runs / 2);
  BOOST_TEST(went_back > runs / 10);
  BOOST_TEST(evaluated > runs / 10);
}

/// A machine that has too little of something for a while, at any moment of a recovery, costs no
/// run: fewer attempts fail than end one. A run that ends at a loss, or at an error of data, first
/// saves its last step, whenever memory has it.
BOOST_AUTO_TEST_CASE(a_shortage_costs_no_run_and_a_failed_run_is_saved) {
  const std::uint64_t first = test::fresh_seed();
  int kept = 0, ended = 0, saved = 0;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const std::uint64_t seed = first + i;
    RunSpec spec = test::small_run(2 + static_cast<int>(seed % 2), 1);
    spec.max_steps = 12;
    spec.batch.global = 8;
    const bool stops = seed % 3 == 0;
    if (stops) spec.recovery.on_failure = RunSpec::OnFailure::stop;
    const bool data = seed % 3 == 1;
    Simulation simulation(spec, seed);
    simulation.lack({.starts = data ? 0 : static_cast<int>(seed / 3 % 3),
                     .orders = static_cast<int>(seed / 9 % 2),
                     .saves = static_cast<int>(seed / 36 % 4),
                     .data = data});
    const auto result = simulation.run(1, static_cast<int>(seed / 18 % 2));
    const auto& [exit_code, step, reason] = result.outcome;
    const std::string what = "seed " + std::to_string(seed) + ": " + result.broken + reason;
    BOOST_REQUIRE_MESSAGE(result.broken.empty(), what);
    if (exit_code == 0) {
      BOOST_REQUIRE_MESSAGE(step == 12 && result.published.contains(12), what);
      ++kept;
      continue;
    }
    BOOST_REQUIRE_MESSAGE((stops || data) && exit_code == (stops ? 70 : 65), what);
    ++ended;
    // What is not saved is told of, and why.
    const std::int64_t newest = result.published.empty() ? 0 : *result.published.rbegin();
    BOOST_REQUIRE_MESSAGE(
        (newest >= step) == (reason.find("could not be saved") == std::string::npos),
        what << ", step " << step << ", saved " << newest);
    saved += newest >= step ? 1 : 0;
  }
  BOOST_TEST(kept > 5'000);
  BOOST_TEST(ended > 1'000);
  BOOST_TEST(saved > ended / 2);
}

/// Whoever is lost, and whenever, memory has a state of all that others can go back to, also while
/// ranks update their weights before a step is committed.
BOOST_AUTO_TEST_CASE(the_loss_of_one_worker_costs_no_step_from_memory) {
  const std::uint64_t first = test::fresh_seed();
  int went_back = 0;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const std::uint64_t seed = first + i;
    RunSpec spec = test::small_run(2 + static_cast<int>(seed % 3), seed % 5 == 0 ? 2 : 1);
    spec.max_steps = 12;
    spec.batch.global = 8;
    if (seed % 3 != 0) spec.validation = RunSpec::Validation::post;
    if (seed % 10 == 0) spec.data_parallel.division = stages::StateDivision::optim;
    const auto result = Simulation(spec, seed).run(1, 0);
    const std::string what = "seed " + std::to_string(seed) + ": " + result.broken;
    BOOST_REQUIRE_MESSAGE(result.broken.empty() && result.outcome.exit_code == 0, what);
    BOOST_REQUIRE_MESSAGE(result.lost_steps == 0, what);
    went_back += result.went_back;
  }
  BOOST_TEST(went_back > 1'000);
}

/// The death of a worker that has no part yet ends no run, even one that the loss of a worker would
/// end, and keeps no order waiting.
BOOST_AUTO_TEST_CASE(newcomers_that_die_cost_nothing) {
  const std::uint64_t first = test::fresh_seed();
  int answered = 0;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const std::uint64_t seed = first + i;
    RunSpec spec = test::small_run(1 + static_cast<int>(seed % 3), seed % 5 == 0 ? 2 : 1);
    spec.max_steps = 12;
    spec.batch.global = 8;
    spec.recovery.on_failure = RunSpec::OnFailure::stop;
    spec.recovery.restarts_per_hour = 0;
    spec.recovery.spares = static_cast<int>(seed / 3 % 2);
    Simulation simulation(spec, seed);
    const auto result = simulation.run(1 + static_cast<int>(seed % 6), 3, 0, true);
    BOOST_REQUIRE_MESSAGE(result.broken.empty(), "seed " << seed << ": " << result.broken);
    BOOST_REQUIRE_MESSAGE(result.outcome.exit_code == 0 && result.outcome.step == 12,
                          "seed " << seed << ": exit " << result.outcome.exit_code << " at step "
                                  << result.outcome.step << ": " << result.outcome.reason);
    answered += result.answered;
  }
  BOOST_TEST(answered > 20'000);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
