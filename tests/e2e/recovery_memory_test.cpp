#include <signal.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests that a run whose worker dies keeps the memory of the other workers.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(recovery_memory_test)

namespace {

/// The ids of the System V segments that a process has mapped.
std::set<std::string> segments_of(pid_t pid) {
  std::set<std::string> segments;
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/SYSV") == std::string::npos) continue;
    std::istringstream words(line);
    std::string range, rights, offset, device, id;
    words >> range >> rights >> offset >> device >> id;
    segments.insert(id);
  }
  return segments;
}

bool has_common(const std::set<std::string>& a, const std::set<std::string>& b) {
  return std::ranges::any_of(a, [&b](const std::string& id) { return b.contains(id); });
}

int newest_step(const std::string& run) {
  const auto steps = step_numbers(run);
  return steps.empty() ? 0 : steps.rbegin()->first;
}

}  // namespace

BOOST_AUTO_TEST_CASE(survivors_keep_the_memory_that_messages_arrive_in) {
  const Workplace place;
  const std::string run = place.run("killed");
  TroupeProgram program(
      {"launch", place.manifest("killed", {{"mesh.pp", "3"}, {"run.max_steps", "100000000"}})});
  BOOST_REQUIRE(program.read_until("step 3/"));
  const auto workers = workers_of(run);
  BOOST_REQUIRE(workers.size() == 3u);
  const auto first = segments_of(workers[0]), last = segments_of(workers[2]);
  kill(workers[1], SIGKILL);
  BOOST_REQUIRE(program.read_until("recovered"));
  // Some steps after the loss the copies of earlier states are gone, and so is their memory.
  for (const int recovered = newest_step(run); newest_step(run) < recovered + 5;)
    BOOST_REQUIRE(program.read_until("step "));
  BOOST_TEST(has_common(segments_of(workers[0]), first));
  BOOST_TEST(has_common(segments_of(workers[2]), last));
  BOOST_TEST(troupe({"stop", run}).exit_code == 0);
  BOOST_TEST(program.finish().exit_code == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
