#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "tests/support/seed.h"
#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests faults in real clusters: kinds x moments x ranks, by seed. In every case the losses are
// those of an undisturbed run and nothing is left behind. TROUPE_FAULTS is the number of faults
// that are tried.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(faults_test)

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Steps of a run that are compared with those of an undisturbed one. A run goes on until it is
/// stopped, so that it never ends before its fault.
constexpr int kSteps = 40;

const Keys kBase{{"run.max_steps", "1000000"},
                 {"checkpoint.interval", "7"},
                 {"recovery.restarts_per_hour", "1000"},
                 {"recovery.silent", "1.0"}};

struct Fault {
  int pp = 2, dp = 1;
  int signal = SIGKILL;
  int step = 5;  ///< the step that is logged when the first fault strikes
  enum { in_step, in_save, in_recovery, in_rescale } moment = in_step;
  int victims = 1;
  /// Between the sign of the moment and the strike.
  std::chrono::microseconds delay{0};
  int spares = 0;
  std::string layout;
  std::string describe() const {
    constexpr const char* kMoments[] = {"in a step", "in a save", "in a recovery", "in a rescale"};
    return "pp " + std::to_string(pp) + " " + layout + ", dp " + std::to_string(dp) + ", " +
           std::to_string(spares) + " spares, signal " + std::to_string(signal) + " to " +
           std::to_string(victims) + " " + kMoments[moment] + " after step " + std::to_string(step);
  }
};

Fault fault_of(std::mt19937_64& rng) {
  const auto pick = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  constexpr int kSignals[] = {SIGKILL, SIGKILL, SIGSEGV, SIGABRT, SIGSTOP};
  Fault fault{.pp = 2 + pick(3), .dp = 1, .signal = kSignals[pick(5)], .step = 1 + pick(20)};
  if (pick(6) == 0) {
    fault.pp = 1 + pick(2);
    fault.dp = 2;
  }
  fault.moment = static_cast<decltype(fault.moment)>(pick(4));
  fault.victims = fault.pp * fault.dp > 1 ? 1 + pick(2) : 1;
  fault.delay = std::chrono::microseconds(pick(3000));
  // Some runs have stages that hold little or nothing.
  if (fault.pp > 2 && pick(2) == 0) fault.layout = fault.pp == 3 ? "Et*3||t*3L" : "E|t*3||t*3L";
  fault.spares = pick(2);
  return fault;
}

/// Turns of the scheduler would take seconds of a busy machine, and the run be far beyond.
void let_others_run(std::chrono::microseconds delay) {
  for (const auto end = std::chrono::steady_clock::now() + delay;
       std::chrono::steady_clock::now() < end;)
    sched_yield();
}

void strike(const Fault& fault, const std::string& run, std::mt19937_64& rng,
            std::set<pid_t>& struck) {
  auto pids = workers_of(run);
  std::ranges::shuffle(pids, rng);
  for (int i = 0; i < fault.victims && i < static_cast<int>(pids.size()); ++i) {
    struck.insert(pids[static_cast<std::size_t>(i)]);
    kill(pids[static_cast<std::size_t>(i)], fault.signal);
    let_others_run(fault.delay);
  }
}

/// Waits until a checkpoint is being written, or the run has ended.
void wait_for_save(const std::string& run, const TroupeProgram& program) {
  const auto is_writing = [&] {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(run + "/checkpoints", error))
      if (entry.path().extension() == ".tmp") return true;
    return false;
  };
  while (!is_writing() && is_alive(program.pid())) sched_yield();
}

std::map<int, StepNumbers> undisturbed(const Workplace& place, Keys keys) {
  keys["run.max_steps"] = std::to_string(kSteps);
  const Finished done = troupe({"launch", place.manifest("undisturbed", keys)});
  BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  return step_numbers(place.run("undisturbed"));
}

/// Runs with one fault. Returns the run's numbers.
std::map<int, StepNumbers> suffer(const Workplace& place, const std::string& name,
                                  const Fault& fault, std::mt19937_64& rng) {
  Keys keys = kBase;
  keys["mesh.pp"] = std::to_string(fault.pp);
  keys["mesh.dp"] = std::to_string(fault.dp);
  keys["recovery.spares"] = std::to_string(fault.spares);
  keys["mesh.layout"] = '"' + fault.layout + '"';
  const std::string run = place.run(name);
  std::set<pid_t> struck;
  TroupeProgram program({"launch", place.manifest(name, keys)});
  BOOST_REQUIRE(program.read_until("step " + std::to_string(fault.step) + "/"));
  std::optional<TroupeProgram> order;
  if (fault.moment == Fault::in_save) wait_for_save(run, program);
  if (fault.moment == Fault::in_rescale)
    order.emplace(std::vector<std::string>{"scale", run, "--pp", std::to_string(fault.pp + 1)});
  let_others_run(fault.delay);
  strike(fault, run, rng, struck);
  if (fault.moment == Fault::in_recovery) {
    let_others_run(fault.delay);
    strike(fault, run, rng, struck);
  }
  if (order) order->finish();
  BOOST_TEST(!struck.empty());
  const auto numbers = stop_after(kSteps, program, run);
  for (const pid_t pid : struck) BOOST_TEST(!is_alive(pid));
  return numbers;
}

void check_equal(const std::map<int, StepNumbers>& got, const std::map<int, StepNumbers>& want,
                 double relative) {
  BOOST_REQUIRE_EQUAL(got.size(), want.size());
  for (const auto& [step, numbers] : want) {
    const double error = std::abs(got.at(step).loss - numbers.loss) / numbers.loss;
    BOOST_REQUIRE_MESSAGE(
        relative > 0 ? error <= relative : got.at(step) == numbers,
        "step " << step << ": loss " << got.at(step).loss << ", not " << numbers.loss);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_fault_changes_a_loss) {
  const std::uint64_t seed = fresh_seed();
  const int count = number_of("TROUPE_FAULTS", 20);
  const Workplace place;
  const auto want = undisturbed(place, kBase);
  const auto shm = shared_memory();
  for (int i = 0; i < count; ++i) {
    std::mt19937_64 rng(seed + static_cast<std::uint64_t>(i));
    const Fault fault = fault_of(rng);
    BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed + static_cast<std::uint64_t>(i) << ": "
                                           << fault.describe()) {
      const std::string name = "fault-" + std::to_string(i);
      check_equal(suffer(place, name, fault, rng), want, fault.dp > 1 ? 1e-5 : 0);
    }
  }
  wait_for_no_more_than(shm);
}

BOOST_AUTO_TEST_CASE(a_run_that_loses_all_workers_starts_again_from_what_it_started_from) {
  const Workplace place;
  Keys keys = kBase;
  keys["checkpoint.interval"] = "0";
  const auto want = undisturbed(place, keys);
  keys["mesh.pp"] = "3";
  TroupeProgram program({"launch", place.manifest("run", keys)});
  BOOST_REQUIRE(program.read_until("step 6/"));
  const auto workers = workers_of(place.run("run"));
  // Two of three neighbours die, so that no worker is left which holds the state of both.
  for (const pid_t pid : {workers.at(1), workers.at(2)}) kill(pid, SIGKILL);
  BOOST_REQUIRE(program.read_until("recovered at step"));
  check_equal(stop_after(kSteps, program, place.run("run")), want, 0);
}

BOOST_AUTO_TEST_CASE(a_spare_takes_the_place_of_a_lost_worker) {
  const Workplace place;
  Keys keys = kBase;
  keys["mesh.pp"] = "2";
  keys["recovery.spares"] = "1";
  TroupeProgram program({"launch", place.manifest("spare", keys)});
  BOOST_REQUIRE(program.read_until("step 10/"));
  const auto before = workers_of(place.run("spare"));
  BOOST_REQUIRE(before.size() == 2u);
  kill(before[1], SIGKILL);
  BOOST_REQUIRE(program.read_until("recovered at step"));
  stop_after(kSteps, program, place.run("spare"));
  std::ifstream log(place.run("spare") + "/logs/spare-2/output");
  const std::string text((std::istreambuf_iterator<char>(log)), {});
  BOOST_TEST(text.find("configuration 2 begins") != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(too_many_worker_failures_end_the_run_in_order_with_75) {
  const Workplace place;
  Keys keys = kBase;
  keys["mesh.pp"] = "2";
  keys["recovery.restarts_per_hour"] = "1";
  TroupeProgram program({"launch", place.manifest("run", keys)});
  for (const char* sign : {"step 5/", "recovered at step "}) {
    BOOST_REQUIRE(program.read_until(sign));
    kill(workers_of(place.run("run")).at(0), SIGKILL);
  }
  const Finished done = program.finish();
  BOOST_TEST(done.exit_code == 75);
  BOOST_TEST(done.err.find("restarts_per_hour = 1") != std::string::npos, done.err);
  const int last = step_numbers(place.run("run")).rbegin()->first;
  BOOST_TEST(fs::exists(place.checkpoint("run", last) + "/state.json"));
}

BOOST_AUTO_TEST_CASE(a_run_is_resumed_in_the_shape_it_had_last) {
  const Workplace place;
  Keys keys = kBase;
  keys["mesh.pp"] = "2";
  const std::string run = place.run("run");
  TroupeProgram program({"launch", place.manifest("run", keys)});
  BOOST_REQUIRE(program.read_until("step 3/"));
  const std::vector<std::string> order{"scale", run, "--pp", "3", "--layout", "Et|t*4|tL"};
  const Finished scaled = troupe(order);
  BOOST_TEST(scaled.exit_code == 0, scaled.err);
  for (const char* line : {"changed at step ", "before: pp 2 x dp 1, 1f1b, layers 3,3\n",
                           "after:  pp 3 x dp 1, 1f1b, layers 1,4,1\n"})
    BOOST_TEST(scaled.out.find(line) != std::string::npos, scaled.out);
  BOOST_TEST(troupe({"stop", run}).exit_code == 0);
  program.finish();
  const int last = step_numbers(run).rbegin()->first;
  TroupeProgram again({"launch", "--resume", run});
  BOOST_REQUIRE(again.read_until("step " + std::to_string(last + 2) + "/"));
  BOOST_TEST(workers_of(run).size() == 3u);
  const Finished same = troupe(order);
  BOOST_TEST(same.exit_code == 64);
  BOOST_TEST(same.err.find("has already") != std::string::npos, same.err);
  BOOST_TEST(troupe({"stop", run}).exit_code == 0);
  again.finish();
}

BOOST_AUTO_TEST_CASE(orders_that_cannot_be_carried_out_are_refused_and_change_nothing) {
  const Workplace place;
  Keys keys = kBase;
  keys["mesh.pp"] = "2";
  TroupeProgram program({"launch", place.manifest("run", keys)});
  BOOST_REQUIRE(program.read_until("step 3/"));
  const std::string run = place.run("run");
  const auto refused = [&](std::vector<std::string> options, const std::string& why) {
    options.insert(options.begin(), {"scale", run});
    const Finished done = troupe(options);
    BOOST_TEST(done.exit_code == 64);
    BOOST_TEST(done.err.find(why) != std::string::npos, done.err);
  };
  refused({}, "nothing to change");
  refused({"--pp", "7"}, "at most --pp 6");
  refused({"--pp", "2"}, "has already");
  refused({"--dp", "3"}, "nearest: --dp 2");
  refused({"--layout", "3,2"}, "the model has 6");
  refused({"--layout", "3,x"}, "such as 3,2,1");
  refused({"--layout", "Ett|t*3L"}, "layer 5 is lost; nearest: Et*2|t*4L");
  refused({"--layout", "3,2,1"},
          "--layout 3,2,1 has 3 chunks instead of 2; nearest: 3,3; the run has pp 2 with 1 chunk a "
          "stage (1f1b), for this layout give --pp 3 too");
  refused({"--pp", "3", "--layout", "3,3"}, "nearest: 3,2,1");
  refused({"--pp", "3", "--schedule", "chimera"}, "--pp 3 --schedule chimera: ");
  refused({"--schedule", "nosuch"}, "it is one of gpipe, 1f1b");
  const json status = status_of(run);
  BOOST_TEST(status["configuration"] == 1);
  BOOST_TEST(troupe({"stop", run}).exit_code == 0);
  program.finish();
  const Finished late = troupe({"scale", run, "--pp", "3"});
  BOOST_TEST(late.exit_code == 69);
  BOOST_TEST(late.err.find("ended") != std::string::npos, late.err);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
