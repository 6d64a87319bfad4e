#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/http_get.h"
#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests how status and the metrics of a launched run name ranks after a worker was lost.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(rank_names_test)

namespace {

using nlohmann::json;

const Keys kLong{{"run.max_steps", "1000000"}, {"mesh.pp", "2"}, {"monitor.log_interval", "1"}};

/// Stops the process of rank 1 and returns what rank 0 then waits for. The process may stop between
/// its last message of a step and its vote: rank 0 has voted then, and waits for the director's
/// order alone, which has no name. It goes on in that case, and is stopped again.
std::string wait_of_rank_0(const std::string& run_dir, pid_t rank_1) {
  for (;; kill(rank_1, SIGCONT)) {
    kill(rank_1, SIGSTOP);
    for (std::string state; state != "prepared";) {
      const json rank = status_of(run_dir).at("ranks")[0];
      if (rank.at("waiting_for") != "") return rank.at("waiting_for");
      state = rank.at("state");
    }
    BOOST_TEST_MESSAGE("rank 1 was stopped after its last message of a step");
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(nothing_is_told_of_a_rank_that_is_gone) {
  const Workplace place;
  Keys keys = kLong;
  keys["mesh.pp"] = "3";
  keys["recovery.on_failure"] = "\"shrink\"";
  keys["recovery.silent"] = keys["recovery.hang"] = "0.0";
  keys["monitor.prometheus"] = "\"127.0.0.1:0\"";
  TroupeProgram run({"launch", place.manifest("run", keys)});
  BOOST_REQUIRE(run.read_until("step 5/"));
  const std::string dir = place.run("run");
  kill(workers_of(dir).at(1), SIGKILL);
  BOOST_REQUIRE(run.read_until("after:  pp 2 x dp 1"));
  BOOST_REQUIRE(run.read_until("step "));
  // The process that is rank 1 now was rank 2. Once it is stopped, the other rank waits for it.
  const json ranks = status_of(dir).at("ranks");
  BOOST_REQUIRE(ranks.size() == 2u);
  const std::string wait = wait_of_rank_0(dir, ranks[1].at("pid"));
  BOOST_TEST(wait.find("rank 1") != std::string::npos, wait);
  BOOST_TEST(wait.find("rank 2") == std::string::npos, wait);
  const std::string endpoint = status_of(dir).at("endpoints").at("prometheus");
  std::string metrics;
  do metrics = http_get(endpoint);  // they follow the console a moment later
  while (metrics.find("troupe_run_ranks 2") == std::string::npos);
  for (const char* gone : {"rank=\"2\"", "src=\"2\"", "dst=\"2\"", "stage=\"2\""})
    BOOST_TEST(metrics.find(gone) == std::string::npos, gone << " is in\n" << metrics);
  kill(ranks[1].at("pid").get<pid_t>(), SIGCONT);
  run.signal(SIGTERM);
  BOOST_TEST(run.finish().exit_code == 0);
}

BOOST_AUTO_TEST_CASE(a_spare_is_called_by_the_rank_it_has_taken) {
  const Workplace place;
  Keys keys = kLong;
  keys["recovery.spares"] = "1";
  keys["recovery.silent"] = keys["recovery.hang"] = "0.0";
  TroupeProgram run({"launch", place.manifest("run", keys)});
  BOOST_REQUIRE(run.read_until("step 5/"));
  const std::string dir = place.run("run");
  const pid_t lost = workers_of(dir).at(1);
  kill(lost, SIGKILL);
  BOOST_REQUIRE(run.read_until("ended by signal 9"));
  BOOST_REQUIRE(run.read_until("step "));
  json ranks;
  do ranks = status_of(dir).at("ranks");
  while (ranks.size() < 2 || ranks[1].at("pid") == lost || ranks[1].at("state") == "starting");
  BOOST_TEST(ranks.size() == 2u);  // the spare that is warm now is no rank
  BOOST_TEST(ranks[1].at("rank") == 1);
  const std::string wait = wait_of_rank_0(dir, ranks[1].at("pid"));
  BOOST_TEST(wait.find("rank 1") != std::string::npos, wait);
  kill(ranks[1].at("pid").get<pid_t>(), SIGCONT);
  run.signal(SIGTERM);
  BOOST_TEST(run.finish().exit_code == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
