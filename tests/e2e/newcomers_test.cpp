#include <sched.h>
#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests workers that are lost before they have a part: nothing is lost with them, and no wait for
// them is long.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(newcomers_test)

namespace {

namespace fs = std::filesystem;

/// A run that a loss would end.
const Keys kStops{{"run.max_steps", "1000000"},
                  {"mesh.pp", "2"},
                  {"recovery.on_failure", "\"stop\""}};

std::set<pid_t> children_of(pid_t parent) {
  std::set<pid_t> children;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator("/proc", gone)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream in(entry.path() / "stat");
    std::string line;
    std::getline(in, line);
    const auto end = line.rfind(')');  // the end of the program's name, which may contain blanks
    if (end == std::string::npos || line.size() < end + 4) continue;
    if (line[end + 2] != 'Z' && std::atoi(line.c_str() + end + 4) == parent)
      children.insert(std::stoi(name));
  }
  return children;
}

/// Sends the signal to new children of the launcher as long as `until` lives, to at most `most` of
/// them.
int strike_newborn(const TroupeProgram& run, const std::set<pid_t>& old, int signal,
                   const TroupeProgram& until, int most) {
  std::set<pid_t> struck;
  while (is_alive(until.pid()) && static_cast<int>(struck.size()) < most) {
    for (const pid_t child : children_of(run.pid()))
      if (!old.contains(child) && struck.insert(child).second) kill(child, signal);
    sched_yield();
  }
  return static_cast<int>(struck.size());
}

void end(const std::string& dir, TroupeProgram& run) {
  BOOST_TEST(troupe({"stop", dir}).exit_code == 0);
  const Finished done = run.finish();
  BOOST_TEST(done.exit_code == 0, done.err);
}

}  // namespace

BOOST_AUTO_TEST_CASE(newcomers_that_die_end_an_order_and_never_the_run) {
  const Workplace place;
  const std::string dir = place.run("run");
  TroupeProgram run({"launch", place.manifest("run", kStops)});
  BOOST_REQUIRE(run.read_until("step 2/"));
  const auto old = children_of(run.pid());
  BOOST_TEST_REQUIRE(old.size() == 2u);
  TroupeProgram order({"scale", dir, "--pp", "3"});
  BOOST_TEST(strike_newborn(run, old, SIGKILL, order, 1000) == 3);
  const Finished refused = order.finish();
  BOOST_TEST(refused.exit_code == 69);
  BOOST_TEST(refused.err.find("the change has failed 3 times") != std::string::npos, refused.err);
  // The death of one newcomer does not end an order.
  TroupeProgram again({"scale", dir, "--pp", "3"});
  BOOST_TEST(strike_newborn(run, old, SIGKILL, again, 1) == 1);
  const Finished done = again.finish();
  BOOST_TEST(done.exit_code == 0, done.err);
  BOOST_TEST(workers_of(dir).size() == 3u);
  read_new_steps(run, dir, 1);
  end(dir, run);
}

BOOST_AUTO_TEST_CASE(a_newcomer_that_is_stopped_as_it_starts_is_replaced) {
  const Workplace place;
  const std::string dir = place.run("run");
  TroupeProgram run({"launch", place.manifest("run", kStops)});
  BOOST_REQUIRE(run.read_until("step 2/"));
  const auto old = children_of(run.pid());
  TroupeProgram order({"scale", dir, "--pp", "3"});
  BOOST_TEST(strike_newborn(run, old, SIGSTOP, order, 1) == 1);
  const Finished done = order.finish();
  BOOST_TEST(done.exit_code == 0, done.err);
  BOOST_TEST(workers_of(dir).size() == 3u);
  BOOST_TEST(troupe({"stop", dir}).exit_code == 0);
  const Finished ended = run.finish();
  BOOST_TEST(ended.exit_code == 0, ended.err);
  // This holds whether they had joined or not, and does not take the minute that slowly starting
  // workers are given.
  BOOST_TEST(ended.out.find("silence: ") != std::string::npos, ended.out);
  BOOST_TEST(ended.out.find(" for 3 s") != std::string::npos, ended.out);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
