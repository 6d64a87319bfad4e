#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <random>

#include "tests/support/seed.h"
#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests a run that loses a worker again and again. TROUPE_KILLS is the number of losses, and
// TROUPE_KILL_PERIOD the seconds between them; without it, a worker is killed as soon as the run
// has made a step since the last loss.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(kills_test)

namespace {

/// Follows the run's steps for `period`, at least for one step.
void follow(TroupeProgram& program, std::chrono::seconds period) {
  const auto end = std::chrono::steady_clock::now() + period;
  do {
    BOOST_REQUIRE(program.read_until("step "));
  } while (std::chrono::steady_clock::now() < end);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_goes_on_however_often_it_loses_a_worker) {
  std::mt19937_64 rng(fresh_seed());
  const int kills = number_of("TROUPE_KILLS", 5);
  const std::chrono::seconds period(number_of("TROUPE_KILL_PERIOD", 0));
  const Workplace place;
  const Keys keys{{"mesh.pp", "3"},
                  {"run.max_steps", "100000000"},
                  {"batch.global", "64"},
                  {"checkpoint.interval", "50"},
                  {"recovery.restarts_per_hour", "1000"}};
  const auto shm = shared_memory();
  const std::string run = place.run("killed");
  TroupeProgram program({"launch", place.manifest("killed", keys)});
  for (int i = 0; i < kills; ++i) {
    follow(program, period);
    const auto workers = workers_of(run);
    BOOST_REQUIRE(!workers.empty());
    BOOST_TEST_MESSAGE("kill " << i + 1 << " of " << kills);
    kill(workers[rng() % workers.size()], SIGKILL);
    BOOST_REQUIRE(program.read_until("recovered"));
  }
  follow(program, period);
  const Finished stopped = troupe({"stop", run});
  BOOST_TEST(stopped.exit_code == 0, stopped.err);
  BOOST_TEST(program.finish().exit_code == 0);
  wait_for_no_more_than(shm);

  const auto got = step_numbers(run);
  TroupeProgram undisturbed({"launch", place.manifest("undisturbed", keys)});
  BOOST_REQUIRE(undisturbed.read_until("step " + std::to_string(got.rbegin()->first) + "/"));
  troupe({"stop", place.run("undisturbed")});
  undisturbed.finish();
  const auto want = step_numbers(place.run("undisturbed"));
  int next = 1;
  for (const auto& [step, numbers] : got) {
    BOOST_REQUIRE_EQUAL(step, next++);
    BOOST_REQUIRE_MESSAGE(numbers == want.at(step), "step " << step << ": another loss");
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
