#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests what is left of the collectives of a rank that lost another one.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(collectives_test)

namespace {

using nlohmann::json;

/// Stops rank 1 where rank 0 waits for it in an all-reduce, and returns what rank 0 waits for. The
/// process may stop after its last message of a step: it goes on in that case, and is stopped
/// again. The wait may be that of the heartbeat before the stop, and be over.
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

/// Calls of each operation, and the elements of their inputs.
struct Traffic {
  int calls = 0;
  std::int64_t elements = 0;
  bool operator==(const Traffic&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Traffic& traffic) {
  return out << traffic.calls << " calls, " << traffic.elements << " elements";
}

/// What rank 0 called between its last two losses: a backward and the next forward. A loss is a sum
/// over tokens, whose elements are fewer than those of any activation.
std::map<std::string, Traffic> traffic_of_a_step(const std::string& run_dir, std::int64_t tokens) {
  std::vector<json> records;
  std::istringstream lines(content_of(run_dir + "/logs/rank-0/collectives.jsonl"));
  for (std::string line; std::getline(lines, line);) records.push_back(json::parse(line));
  const auto is_loss = [&](const json& record) {
    return record.at("elements").get<std::int64_t>() <= 2 * tokens;
  };
  std::map<std::string, Traffic> traffic;
  auto record = std::find_if(records.rbegin(), records.rend(), is_loss);
  record = std::find_if_not(record, records.rend(), is_loss);
  for (; record != records.rend() && !is_loss(*record); ++record) {
    Traffic& sum = traffic[record->at("operation")];
    ++sum.calls;
    sum.elements += record->at("elements").get<std::int64_t>();
  }
  BOOST_TEST_REQUIRE((record != records.rend()), "no whole step is recorded");
  return traffic;
}

}  // namespace

/// arXiv 2205.05198, section 4.2: each layer has 4 all-reduces of its activations, or, if they are
/// split along the sequence, 4 reduce-scatters and 4 all-gathers, and 2 all-gathers more for inputs
/// that are not kept whole.
BOOST_AUTO_TEST_CASE(layers_communicate_what_the_analysis_says) {
  constexpr std::int64_t kLayers = 6, kTokens = 32, kActivation = kTokens * 32,
                         kSlice = kActivation / 2;
  for (const bool sequence_parallel : {false, true}) {
    const Workplace place;
    TroupeProgram run({"launch", place.manifest("run", {{"run.max_steps", "1000000"},
                                                        {"batch.global", "2"},  // one microbatch
                                                        {"monitor.log_interval", "1"},
                                                        {"recovery.restarts_per_hour", "1000"},
                                                        {"mesh.tp", "2"},
                                                        {"mesh.sequence_parallel",
                                                         sequence_parallel ? "true" : "false"}})});
    const std::string dir = place.run("run");
    // A rank that waits for no other one when it loses it, but for the vote, records nothing.
    do {
      for (int steps = 0; steps < 4; ++steps) BOOST_REQUIRE(run.read_until("/1000000"));
      kill(workers_of(dir).at(1), SIGKILL);
      BOOST_REQUIRE(run.read_until("recovered"));
    } while (!std::filesystem::exists(dir + "/logs/rank-0/collectives.jsonl"));
    auto traffic = traffic_of_a_step(dir, kTokens);
    if (sequence_parallel) {
      // Besides the layers: the embedding's sum and the gather of its gradient; the head's input,
      // gathered for the forward and for the weight gradient, and the sum of its gradient; once a
      // step the gradients of the norms, in one call.
      BOOST_TEST(traffic["reduce-scatter"] ==
                 (Traffic{4 * kLayers + 2, (4 * kLayers + 2) * kActivation}));
      BOOST_TEST(traffic["all-gather"] == (Traffic{6 * kLayers + 3, (6 * kLayers + 3) * kSlice}));
      BOOST_TEST(traffic["all-reduce"] == (Traffic{1, (2 * kLayers + 1) * 32}));
    } else {
      // Besides the layers: the embedding's sum, and the sum of the head's gradient.
      BOOST_TEST(traffic["all-reduce"] ==
                 (Traffic{4 * kLayers + 2, (4 * kLayers + 2) * kActivation}));
      BOOST_TEST(traffic.size() == 1u);
    }
    run.signal(SIGTERM);
    BOOST_TEST(run.finish().exit_code == 0);
  }
}

BOOST_AUTO_TEST_CASE(the_collective_and_the_rank_at_fault_are_named) {
  const Workplace place;
  TroupeProgram run({"launch", place.manifest("run", {{"run.max_steps", "1000000"},
                                                      {"mesh.dp", "2"},
                                                      {"monitor.log_interval", "1"},
                                                      {"recovery.silent", "0.0"},
                                                      {"recovery.hang", "0.0"},
                                                      {"recovery.restarts_per_hour", "1000"}})});
  BOOST_REQUIRE(run.read_until("step 5/"));
  const std::string dir = place.run("run");
  std::string wait;
  do {
    const pid_t rank_1 = workers_of(dir).at(1);
    wait = stop_in_all_reduce(dir, rank_1);
    BOOST_TEST(wait.find("group \"replicas of stage 0\", missing rank 1") != wait.npos, wait);
    kill(rank_1, SIGKILL);
    BOOST_REQUIRE(run.read_until("ended by signal 9"));
    BOOST_REQUIRE(run.read_until("recovered"));  // rank 0 has left the step, and written its record
  } while (!std::filesystem::exists(dir + "/logs/rank-0/collectives.jsonl"));

  // The number of the collective: "all-reduce 12 of group ...". Rank 0 told it by a heartbeat, and
  // may have got further before it stood still.
  const int told = std::stoi(wait.substr(11));
  const Finished answer = troupe({"collectives", dir});
  BOOST_TEST(answer.exit_code == 0, answer.err);
  BOOST_TEST(answer.out.find("group \"replicas of stage 0\": all-reduce of") != std::string::npos,
             answer.out);
  std::smatch found;
  BOOST_REQUIRE_MESSAGE(
      std::regex_search(answer.out, found,
                        std::regex("number ([0-9]+), did not end; called by rank 0\n")),
      answer.out);
  BOOST_TEST(std::stoi(found[1]) >= told, answer.out);
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

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
