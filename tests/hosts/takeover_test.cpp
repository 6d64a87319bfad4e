#include <signal.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "tests/hosts/hosts_runs.h"

// Tests that a run goes on whose launcher is lost, stopped or cut off: launch --resume on another
// host takes it over, with the workers that wait there. Losses stay those of one process, and no
// step is lost or written twice.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(takeover_test)

namespace {

/// A run of many steps, launched on host 0 of a lab, which others take over. Host `apart` has
/// empty folders of its own for runs and caches.
class Run {
 public:
  Run(Keys keys, const std::string& hosts, int num_hosts, int apart = -1) : lab(num_hosts) {
    keys["run.max_steps"] = "100000";
    keys["cluster.forward_env"] = R"(["XDG_CACHE_HOME"])";
    lab.start_ssh();
    for (const char* folder : {"runs", "cache"}) {
      std::filesystem::create_directories(place.dir / folder);
      if (apart >= 0) lab.make_private(apart, (place.dir / folder).string());
    }
    first.emplace(lab, 0,
                  with_cache(launch_on_hosts(place, place.manifest("run", on_hosts(keys)), hosts)));
    BOOST_REQUIRE(first->read_until("step 5/"));
  }
  std::string dir() const { return place.run("run"); }
  std::vector<std::string> resume() const {
    return with_cache({binary_on_hosts(), "launch", "--resume", dir()});
  }
  std::vector<std::string> with_cache(std::vector<std::string> words) const {
    words.insert(words.begin(), {"env", "XDG_CACHE_HOME=" + (place.dir / "cache").string()});
    return words;
  }
  /// Another launcher takes the run over.
  HostProgram& take_over(int host) { return next.emplace(lab, host, resume()); }
  /// Host and process of each rank, as a host is told.
  std::set<std::pair<std::string, int>> ranks(int host) const {
    const Finished status = lab.run(host, {binary_on_hosts(), "status", dir(), "--json"});
    BOOST_REQUIRE_MESSAGE(status.exit_code == 0, status.err);
    std::set<std::pair<std::string, int>> all;
    const auto told = nlohmann::json::parse(status.out);
    for (const auto& rank : told.at("ranks")) all.emplace(rank.at("host"), rank.at("pid"));
    return all;
  }
  /// Goes on for some steps, ends the run from a host, and compares all of its steps with those of
  /// one process.
  void end_and_compare(int host) {
    read_new_steps(*next, dir(), 10);
    const Finished stop = lab.run(host, {binary_on_hosts(), "stop", dir()});
    BOOST_TEST(stop.exit_code == 0, stop.err);
    BOOST_TEST(next->finish().exit_code == 0);
    const auto numbers = step_numbers(dir());
    BOOST_TEST(static_cast<int>(numbers.size()) == numbers.rbegin()->first);
    const int steps = std::min(100, numbers.rbegin()->first);
    BOOST_TEST((until_step(steps, numbers) ==
                alone(place, "alone", {{"run.max_steps", std::to_string(steps)}})));
  }
  void stop_first() {
    kill(first->pid(), SIGSTOP);
    const std::string stat = "/proc/" + std::to_string(first->pid()) + "/stat";
    while (content_of(stat).find(") T ") == std::string::npos) {
    }  // the test's timeout bounds it
  }
  Finished continue_first() {
    kill(first->Program::pid(), SIGCONT);  // what entered the host was stopped with it
    return first->finish();
  }

  Workplace place;
  Lab lab;
  std::optional<HostProgram> first, next;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_killed_launchers_workers_go_on_with_one_on_another_host) {
  Run run({{"mesh.pp", "2"}}, "h0:1\nh1:1\nh2:1\n", 3);
  const auto before = run.ranks(0);
  kill(run.first->pid(), SIGKILL);
  HostProgram& launcher = run.take_over(2);
  wait_for_event(run.dir(), "recovered", {{"from", "memory"}});
  read_new_steps(launcher, run.dir(), 5);
  const auto now = run.ranks(2);
  std::vector<std::pair<std::string, int>> stayed;
  std::ranges::set_intersection(before, now, std::back_inserter(stayed));
  BOOST_TEST((stayed.size() == 1u && stayed.front().first == "h1"));
  BOOST_TEST(launcher.shown().find("is gone; this is term 2; hosts that answer: h1, h2\n") !=
                 std::string::npos,
             launcher.shown());
  // The host that was lost with the launcher comes back.
  wait_for_event(run.dir(), "host", {{"host", "h0"}, {"state", "spare"}});
  while (content_of(run.dir() + "/hosts.json").find("\"h0\"") == std::string::npos)
    continue;  // the next launcher is to find it; the test's timeout bounds it
  // Whoever is lost now is replaced as ever.
  kill(worker_on(run.lab, 1), SIGKILL);
  while (num_events(run.dir(), "recovered") < 2) read_new_steps(launcher, run.dir(), 1);
  run.end_and_compare(2);
  for (int host = 0; host < 3; ++host) BOOST_TEST(programs_on(run.lab, host).empty());
}

BOOST_AUTO_TEST_CASE(a_stopped_launcher_is_replaced_and_ends_before_it_writes) {
  Run run({{"mesh.pp", "2"}, {"checkpoint.interval", "50"}}, "h0:1\nh1:1\nh2:1\n", 3);
  run.stop_first();
  HostProgram& launcher = run.take_over(1);
  BOOST_REQUIRE(launcher.read_until("from memory"));
  read_new_steps(launcher, run.dir(), 10);
  const Finished old = run.continue_first();
  BOOST_TEST(old.exit_code == 75);
  BOOST_TEST(old.err.find("has another launcher now") != std::string::npos, old.err);
  BOOST_TEST(old.err.find("on h1, term 2), so this one, of term 1, ends") != std::string::npos,
             old.err);
  BOOST_TEST(num_events(run.dir(), "end") == 0u);
  run.end_and_compare(0);
}

BOOST_AUTO_TEST_CASE(a_run_survives_the_power_failure_of_its_launchers_host) {
  Run run({{"mesh.pp", "4"}}, "h0:2\nh1:2\nh2:2\n", 3);
  run.lab.poweroff(0);
  HostProgram& launcher = run.take_over(1);
  BOOST_REQUIRE(launcher.read_until("from memory"));
  wait_for_event(run.dir(), "recovered", {{"from", "memory"}});
  BOOST_TEST(run.ranks(2).size() == 4u);
  // And of the next one's.
  run.lab.poweroff(1);
  HostProgram& third = run.take_over(2);
  BOOST_REQUIRE(third.read_until("this is term 3"));
  BOOST_REQUIRE(third.read_until("from memory"));
  run.end_and_compare(2);
}

BOOST_AUTO_TEST_CASE(a_launcher_that_is_cut_off_is_replaced) {
  Run run({{"mesh.pp", "2"}, {"checkpoint.interval", "3"}}, "h0:1\nh1:1\nh2:1\n", 3);
  run.lab.cut(0);
  HostProgram& launcher = run.take_over(2);
  BOOST_REQUIRE(launcher.read_until("does not answer; this is term"));
  read_new_steps(launcher, run.dir(), 10);
  const Finished old = run.first->finish();  // it sees the files, as on a network of their own
  BOOST_TEST(old.exit_code == 75);
  run.lab.heal(0);
  run.end_and_compare(1);
}

BOOST_AUTO_TEST_CASE(state_that_is_lost_with_the_launcher_comes_from_the_checkpoint) {
  Run run({{"mesh.pp", "2"}, {"checkpoint.interval", "2"}}, "h0:2\nh1:2\n", 2);
  const auto before = run.ranks(0);
  BOOST_TEST((before.begin()->first == "h0" && before.rbegin()->first == "h1"));
  // Memory has one stage twice, and the other no more.
  kill(worker_on(run.lab, 1), SIGKILL);
  kill(run.first->pid(), SIGKILL);
  HostProgram& launcher = run.take_over(1);
  read_new_steps(launcher, run.dir(), 3);
  run.end_and_compare(1);
}

BOOST_AUTO_TEST_CASE(checkpoints_are_gathered_by_the_other_launcher_too) {
  // The run's directory is the first host's own, so that the others are launched there.
  Run run({{"mesh.pp", "2"}, {"checkpoint.gather", "true"}, {"checkpoint.interval", "5"}},
          "h0:1\nh1:1\n", 2, 1);
  wait_for_event(run.dir(), "checkpoint");
  kill(run.first->pid(), SIGKILL);
  HostProgram& launcher = run.take_over(0);
  BOOST_REQUIRE(launcher.read_until("from memory"));
  const std::size_t saved = num_events(run.dir(), "checkpoint");
  while (num_events(run.dir(), "checkpoint") == saved) read_new_steps(launcher, run.dir(), 1);
  // No memory has any state: the host that does not see the checkpoint is brought it.
  kill(worker_on(run.lab, 1), SIGKILL);
  kill(launcher.pid(), SIGKILL);
  read_new_steps(run.take_over(0), run.dir(), 3);
  run.end_and_compare(0);
}

BOOST_AUTO_TEST_CASE(a_live_run_is_not_taken_over) {
  Run run({{"mesh.pp", "2"}}, "h0:1\nh1:1\n", 2);
  for (const int host : {0, 1}) {
    const Finished other = run.lab.run(host, run.resume());
    BOOST_TEST(other.exit_code == 78);
    BOOST_TEST(other.err.find("is in use by a running launcher") != std::string::npos, other.err);
  }
  read_new_steps(*run.first, run.dir(), 5);
  run.first->signal(SIGTERM);
}

BOOST_AUTO_TEST_CASE(hosts_that_nobody_takes_over_end_by_themselves) {
  Run run({{"mesh.pp", "2"}, {"cluster.director_wait", "1"}}, "h0:1\nh1:1\n", 2);
  kill(run.first->pid(), SIGKILL);
  while (!programs_on(run.lab, 1).empty()) {
  }  // the test's timeout bounds it
  // The run can be resumed as any other.
  HostProgram& launcher = run.take_over(1);
  BOOST_REQUIRE(launcher.read_until("starting  again: this run has no checkpoint of its own"));
  run.end_and_compare(1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
