#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/hosts/hosts_runs.h"

namespace troupe::test {

/// A run of many steps on hosts of a lab.
class LongRun {
 public:
  LongRun(Keys keys, const std::string& hosts, int num_hosts) : lab(num_hosts) {
    keys["run.max_steps"] = "100000";
    lab.start_ssh();
    program.emplace(lab, 0, launch_on_hosts(place, place.manifest("run", on_hosts(keys)), hosts));
    BOOST_REQUIRE(program->read_until("step 5/"));
  }
  std::string dir() const { return place.run("run"); }
  /// How many ranks the run has, as this host is told.
  std::size_t num_ranks(int host) const {
    const Finished status = lab.run(host, {binary_on_hosts(), "status", dir(), "--json"});
    BOOST_REQUIRE_MESSAGE(status.exit_code == 0, status.err);
    return nlohmann::json::parse(status.out).at("ranks").size();
  }
  /// Orders another cluster. Returns what the order says.
  std::string scale(const std::vector<std::string>& options, int code = 0) const {
    std::vector<std::string> words{binary_on_hosts(), "scale", dir()};
    words.insert(words.end(), options.begin(), options.end());
    const Finished order = lab.run(0, words);
    BOOST_TEST(order.exit_code == code, order.out << order.err);
    return order.out + order.err;
  }
  /// Blocks until nothing of the program is left on a host.
  void wait_until_left(int host) const {
    while (!programs_on(lab, host).empty()) {
    }  // the test's timeout bounds it
  }
  /// Goes on for some steps, ends the run, and compares its losses with those of one process.
  void end_and_compare() {
    stop(*program);
    compare();
  }
  /// Lets a launch of the run go on for some steps, and ends it.
  void stop(Program& launch) const {
    read_new_steps(launch, dir(), 5);
    const Finished stop = lab.run(0, {binary_on_hosts(), "stop", dir()});
    BOOST_TEST(stop.exit_code == 0, stop.err);
    BOOST_TEST(launch.finish().exit_code == 0);
  }
  /// Compares its first losses with those of one process.
  void compare() const {
    const auto numbers = step_numbers(dir());
    const int steps = std::min(100, numbers.rbegin()->first);
    BOOST_TEST((until_step(steps, numbers) ==
                alone(place, "alone", {{"run.max_steps", std::to_string(steps)}})));
  }

  Workplace place;
  Lab lab;
  std::optional<HostProgram> program;
};

}  // namespace troupe::test
