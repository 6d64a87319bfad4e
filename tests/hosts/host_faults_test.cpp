#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <vector>

#include "tests/hosts/faulty_run.h"
#include "tests/support/seed.h"

// Tests faults of hosts under a run: kinds x hosts x shapes, by seed. The run goes on after each,
// and all its losses are those of one host. TROUPE_HOST_FAULTS is how many are tried.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(host_faults_test)

namespace {

/// A run suffers so many. Few, because one host has to compute all its steps again.
constexpr int kFaultsOfRun = 4;

struct Suffered {
  std::string what;
  Keys reference;
  std::map<int, StepNumbers> numbers;
};

/// A run with faults that the seed chooses.
Suffered suffer(const Workplace& place, std::uint64_t seed, int faults) {
  FaultyRun run(place, "run-" + std::to_string(seed), seed);
  std::string what = "TROUPE_TEST_SEED=" + std::to_string(seed) + ": " + run.shape();
  BOOST_TEST_MESSAGE(what);
  for (int i = 0; i < faults; ++i) {
    const FaultyRun::Fault fault = run.draw();
    BOOST_TEST_MESSAGE("  " << FaultyRun::describe(fault));
    what += "; " + FaultyRun::describe(fault);
    BOOST_TEST_CONTEXT(what) run.suffer(fault);
  }
  return {.what = what, .reference = run.reference(), .numbers = run.stop()};
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_fault_of_a_host_changes_a_loss) {
  const std::uint64_t seed = fresh_seed();
  const int count = number_of("TROUPE_HOST_FAULTS", 12);
  const Workplace place;
  std::vector<Suffered> runs;
  for (int done = 0; done < count; done += kFaultsOfRun)
    runs.push_back(suffer(place, seed + static_cast<std::uint64_t>(done / kFaultsOfRun),
                          std::min(kFaultsOfRun, count - done)));
  std::map<Keys, int> steps;  // that one host has to make, by the keys that losses depend on
  for (const Suffered& run : runs)
    steps[run.reference] = std::max(steps[run.reference], run.numbers.rbegin()->first);
  for (const auto& [reference, last] : steps) {
    Keys keys = reference;
    keys["run.max_steps"] = std::to_string(last);
    const auto want = alone(place, "alone-" + std::to_string(reference.size()), keys);
    for (const Suffered& run : runs)
      if (run.reference == reference)
        BOOST_TEST((run.numbers == until_step(run.numbers.rbegin()->first, want)), run.what);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
