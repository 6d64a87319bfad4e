#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests what is left of a collective whose member was stopped and then killed.

namespace troupe::test {
namespace {

using nlohmann::json;

/// Stops rank 1 where rank 0 waits for it in an all-reduce, and returns what rank 0 waits for. The
/// process may stop after its last message of a step: it goes on in that case, and is stopped
/// again.
std::string stop_in_all_reduce(const std::string& run_dir, pid_t rank_1) {
  for (;; kill(rank_1, SIGCONT)) {
    kill(rank_1, SIGSTOP);
    for (std::string state; state != "prepared";) {
      const json rank = status_of(run_dir).at("ranks")[0];
      const std::string wait = rank.at("waiting_for");
      if (wait.find("all-reduce") != wait.npos) return wait;
      if (!wait.empty()) break;
      state = rank.at("state");
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_collective_and_the_rank_at_fault_are_named) {
  const Workplace place;
  TroupeProgram run({"launch", place.manifest("run", {{"run.max_steps", "1000000"},
                                                      {"mesh.dp", "2"},
                                                      {"monitor.log_interval", "1"},
                                                      {"recovery.silent", "0.0"},
                                                      {"recovery.hang", "0.0"}})});
  BOOST_REQUIRE(run.read_until("step 5/"));
  const std::string dir = place.run("run");
  const pid_t rank_1 = workers_of(dir).at(1);
  const std::string wait = stop_in_all_reduce(dir, rank_1);
  BOOST_TEST(wait.find("group \"replicas of stage 0\", missing rank 1") != wait.npos, wait);
  kill(rank_1, SIGKILL);
  BOOST_REQUIRE(run.read_until("ended by signal 9"));
  BOOST_REQUIRE(run.read_until("step "));

  // The number of the collective: "all-reduce 12 of group ...".
  const std::string number = wait.substr(11, wait.find(" of group") - 11);
  BOOST_TEST(std::filesystem::exists(dir + "/logs/rank-0/collectives.jsonl"));
  const Finished answer = troupe({"collectives", dir});
  BOOST_TEST(answer.exit_code == 0, answer.err);
  BOOST_TEST(answer.out.find("group \"replicas of stage 0\": all-reduce of") != std::string::npos,
             answer.out);
  BOOST_TEST(answer.out.find("number " + number + ", did not end; called by rank 0\n") !=
                 std::string::npos,
             answer.out);
  BOOST_TEST(answer.out.find("  rank 1 left no record") != std::string::npos, answer.out);
  run.signal(SIGTERM);
  BOOST_TEST(run.finish().exit_code == 0);
}

BOOST_AUTO_TEST_CASE(a_folder_that_is_no_run_is_refused) {
  const Workplace place;
  const Finished answer = troupe({"collectives", place.run("none")});
  BOOST_TEST(answer.exit_code == 65);
  BOOST_TEST(answer.err.find("is not a run directory") != std::string::npos, answer.err);
}

}  // namespace troupe::test
