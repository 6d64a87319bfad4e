#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
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

/// A run of this manifest that lost workers, and was stopped.
void lose_workers(const Workplace& place, const Keys& keys) {
  std::mt19937_64 rng(fresh_seed());
  const int kills = number_of("TROUPE_KILLS", 5);
  const std::chrono::seconds period(number_of("TROUPE_KILL_PERIOD", 0));
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
}

/// Compares the numbers of each step of the run "killed" with those of an undisturbed one.
void check_numbers(const Workplace& place, const Keys& keys) {
  const auto got = step_numbers(place.run("killed"));
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

const Keys kEndless{{"mesh.pp", "3"},
                    {"run.max_steps", "100000000"},
                    {"batch.global", "64"},
                    {"recovery.restarts_per_hour", "1000"}};

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_goes_on_however_often_it_loses_a_worker) {
  const Workplace place;
  Keys keys = kEndless;
  keys["checkpoint.interval"] = "50";
  lose_workers(place, keys);
  check_numbers(place, keys);
}

// No checkpoint is written, so every way back is to a state that was copied.
BOOST_AUTO_TEST_CASE(a_lost_worker_costs_the_steps_since_the_last_copy) {
  constexpr int kInterval = 7;
  const Workplace place;
  Keys keys = kEndless;
  keys["recovery.copy_interval"] = std::to_string(kInterval);
  lose_workers(place, keys);
  check_numbers(place, keys);
  int ways_back = 0;
  std::ifstream events(place.run("killed") + "/events.jsonl");
  for (std::string line; std::getline(events, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event.at("kind") == "recovered") BOOST_TEST(event.at("from") == "memory", line);
    if (event.at("kind") != "went_back") continue;
    ++ways_back;
    BOOST_TEST(event.at("reached").get<int>() - event.at("back_to").get<int>() <= kInterval, line);
  }
  BOOST_TEST(ways_back > 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
