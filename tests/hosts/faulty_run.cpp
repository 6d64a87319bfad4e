#include "tests/hosts/faulty_run.h"

#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iostream>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

namespace troupe::test {
namespace {

struct Kind {
  const char* name;
  void (FaultyRun::*happen)(int host);
};
constexpr std::array kKinds{
    Kind{"its cable is pulled", &FaultyRun::pull_cable},
    Kind{"its cable is loose", &FaultyRun::loosen_cable},
    Kind{"it has no power", &FaultyRun::power_off},
    Kind{"it loses packets", &FaultyRun::lose_packets},
    Kind{"its link is slow", &FaultyRun::slow_down},
    Kind{"its agent is stopped", &FaultyRun::stop_agent},
    Kind{"its agent is killed", &FaultyRun::kill_agent},
    Kind{"the ssh is killed that started its agent", &FaultyRun::kill_ssh},
    Kind{"a worker is stopped", &FaultyRun::stop_worker},
    Kind{"a worker is killed", &FaultyRun::kill_worker},
    Kind{"the launcher is stopped for a while", &FaultyRun::stop_launcher},
    Kind{"it does not reach another host", &FaultyRun::part},
    Kind{"it takes over from a launcher that is killed", &FaultyRun::kill_launcher},
    Kind{"it takes over from a launcher's host without power", &FaultyRun::power_launcher_off},
};

struct Shape {
  const char* name;
  int hosts, slots;
  Keys keys;
  Keys reference;
};
const std::array<Shape, 5> kShapes{{
    {"3 stages, a spare host", 4, 1, {{"mesh.pp", "3"}, {"recovery.spare_hosts", "1"}}, {}},
    {"4 stages, a spare host", 3, 2, {{"mesh.pp", "4"}, {"recovery.spare_hosts", "1"}}, {}},
    {"6 stages, no spare host", 3, 2, {{"mesh.pp", "6"}}, {}},
    {"2 stages of 2 shards, a spare host",
     3,
     2,
     {{"mesh.pp", "2"}, {"recovery.spare_hosts", "1"}},
     {{"mesh.tp", "2"}}},
    {"2 replicas that divide the moments, spare hosts",
     4,
     1,
     {{"recovery.spare_hosts", "2"}},
     {{"mesh.dp", "2"}, {"data_parallel.sharding", "\"optim\""}}},
}};

const Keys kBase{{"run.max_steps", "1000000"}, {"recovery.restarts_per_hour", "1000"}};

std::string name_of(int host) {
  return "h" + std::to_string(host);
}

void wait_a_little() {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

/// Ends the test with `why` unless it is destroyed in time: who waits in vain does not say for
/// what.
class Watchdog {
 public:
  explicit Watchdog(std::function<std::string()> why)
      : thread_([this, why = std::move(why)](const std::stop_token& stop) {
          constexpr std::chrono::seconds kPatience{150};
          std::unique_lock lock(mutex_);
          if (done_.wait_for(lock, stop, kPatience, [&] { return stop.stop_requested(); })) return;
          if (stop.stop_requested()) return;
          std::cerr << "nothing has happened for " << kPatience.count() << " s: " << why()
                    << std::endl;
          std::abort();
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any done_;
  std::jthread thread_;
};

/// The last lines of a file, without those that say which rank is slow.
std::string last_lines(const std::string& file, std::size_t count) {
  std::istringstream in(content_of(file));
  std::deque<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (line.find("straggler") != line.npos) continue;
    lines.push_back(line.substr(0, 300));
    if (lines.size() > count) lines.pop_front();
  }
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace

FaultyRun::FaultyRun(const Workplace& place, const std::string& name, std::uint64_t seed)
    : rng_(seed), dir_(place.run(name)) {
  for (std::size_t kind = seed % 3; kind < kKinds.size(); kind += 3) kinds_.push_back(kind);
  std::ranges::shuffle(kinds_, rng_);
  const Shape& shape = kShapes.at(static_cast<std::size_t>(pick(kShapes.size())));
  reference_ = shape.reference;
  num_hosts_ = shape.hosts;
  shape_ = std::string(shape.name) + " of " + std::to_string(num_hosts_);
  Keys keys = kBase;
  for (const Keys& more : {shape.keys, shape.reference})
    for (const auto& [key, value] : more) keys[key] = value;
  std::string hosts;
  for (int host = 0; host < num_hosts_; ++host)
    hosts += name_of(host) + ":" + std::to_string(shape.slots) + "\n";
  lab_.emplace(num_hosts_);
  lab_->start_ssh();
  launcher_.emplace(*lab_, 0, launch_on_hosts(place, place.manifest(name, on_hosts(keys)), hosts));
  if (!launcher_->read_until("step 5/")) BOOST_FAIL(launcher_->finish().err);
}

FaultyRun::Fault FaultyRun::draw() {
  std::ranges::rotate(kinds_, kinds_.begin() + 1);
  return {.kind = kinds_.back(), .host = pick_host_but({launcher_host_})};
}

std::string FaultyRun::describe(const Fault& fault) {
  return name_of(fault.host) + ": " + kKinds.at(fault.kind).name;
}

void FaultyRun::suffer(const Fault& fault) {
  const Watchdog watchdog([&] { return describe(fault) + "\n" + state(); });
  const pid_t agent = agent_on(*lab_, fault.host);
  const std::size_t before = times_lost(fault.host);
  (this->*kKinds.at(fault.kind).happen)(fault.host);
  wait_for_all_hosts();
  if (times_lost(fault.host) > before)
    while (is_alive(agent)) wait_a_little();  // another one is there instead
  train(3);
}

std::string FaultyRun::state() const {
  std::string text =
      last_lines(dir_ + "/events.jsonl", 20) + last_lines(dir_ + "/logs/launcher.log", 20);
  for (int host = 0; host < num_hosts_; ++host)
    for (const Lab::Process& process : lab_->processes(host))
      text += name_of(host) + ": " + std::to_string(process.pid) + " " + process.command + "\n";
  return text;
}

std::map<int, StepNumbers> FaultyRun::stop() {
  const Watchdog watchdog([&] { return "the run stops\n" + state(); });
  const Finished stop = lab_->run(launcher_host_, {binary_on_hosts(), "stop", dir_});
  BOOST_TEST(stop.exit_code == 0, stop.err);
  const Finished end = launcher_->finish();
  BOOST_TEST(end.exit_code == 0, end.err);
  for (int host = 0; host < num_hosts_; ++host)
    while (!programs_on(*lab_, host).empty()) wait_a_little();  // the test's timeout bounds it
  return step_numbers(dir_);
}

// --- kinds of faults

void FaultyRun::pull_cable(int host) {
  lose(host, [&] { lab_->cut(host); });
  lab_->heal(host);
}

/// So briefly that the run need not notice.
void FaultyRun::loosen_cable(int host) {
  lab_->cut(host);
  hold(100, 1000);
  lab_->heal(host);
}

void FaultyRun::power_off(int host) {
  lose(host, [&] { lab_->poweroff(host); });
  lab_->boot(host);
}

void FaultyRun::lose_packets(int host) {
  lab_->loss(host, 10 + pick(40));
  train(20);
  lab_->loss(host, 0);
}

void FaultyRun::slow_down(int host) {
  lab_->rate(host, 2 + pick(20));
  train(10);
  lab_->rate(host, 0);
}

/// It finds out that the run has given it up when it goes on.
void FaultyRun::stop_agent(int host) {
  const pid_t agent = agent_on(*lab_, host);
  lose(host, [&] { kill(agent, SIGSTOP); });
  kill(agent, SIGCONT);
}

void FaultyRun::kill_agent(int host) {
  lose(host, [&] { kill(agent_on(*lab_, host), SIGKILL); });
}

/// Its agent lives, and so does everything on the host.
void FaultyRun::kill_ssh(int host) {
  for (const Lab::Process& process : lab_->processes(launcher_host_))
    if (process.command.starts_with("ssh ") &&
        process.command.find(" " + name_of(host) + " ") != std::string::npos)
      kill(process.pid, SIGKILL);
  train(20);
}

void FaultyRun::stop_worker(int host) {
  fail_worker(host, SIGSTOP);
}

void FaultyRun::kill_worker(int host) {
  fail_worker(host, SIGKILL);
}

/// No host is lost for what the launcher did not hear meanwhile.
void FaultyRun::stop_launcher(int) {
  std::vector<std::size_t> before;
  for (int host = 0; host < num_hosts_; ++host) before.push_back(times_lost(host));
  launcher_->signal(SIGSTOP);
  hold(3500, 5000);
  launcher_->go_on();
  train(5);
  for (int host = 0; host < num_hosts_; ++host)
    BOOST_TEST(times_lost(host) == before.at(static_cast<std::size_t>(host)), name_of(host));
}

/// If their ranks need each other, one of the two goes. Otherwise nobody notices.
void FaultyRun::part(int host) {
  const int other = pick_host_but({launcher_host_, host});
  const auto lost = [&] { return times_lost(host) + times_lost(other); };
  const std::size_t lost_before = lost(), steps_before = step_numbers(dir_).size();
  lab_->drop(host, other);
  while (lost() == lost_before && step_numbers(dir_).size() < steps_before + 50) wait_a_little();
  lab_->undrop();
}

void FaultyRun::kill_launcher(int host) {
  const int old = launcher_host_;
  const std::size_t come = times_come(old);
  kill(launcher_->pid(), SIGKILL);
  take_over(host);
  while (times_come(old) == come) wait_a_little();
}

void FaultyRun::power_launcher_off(int host) {
  const int old = launcher_host_;
  const std::size_t come = times_come(old);
  lab_->poweroff(old);
  take_over(host);
  lab_->boot(old);
  while (times_come(old) == come) wait_a_little();
}

// --- what they are made of

template <typename Strike>
void FaultyRun::lose(int host, const Strike& strike) {
  const std::size_t before = times_lost(host);
  strike();
  while (times_lost(host) == before)
    wait_a_little();  // the test's timeout bounds it, and all below
}

/// Of a host that has none, nothing happens.
void FaultyRun::fail_worker(int host, int signal) {
  const pid_t worker = worker_on(*lab_, host);
  if (worker == 0) return;
  kill(worker, signal);
  while (is_alive(worker)) wait_a_little();
}

/// A launcher on this host goes on with the run.
void FaultyRun::take_over(int host) {
  launcher_.emplace(*lab_, host,
                    std::vector<std::string>{binary_on_hosts(), "launch", "--resume", dir_});
  launcher_host_ = host;
  if (launcher_->read_until("step ")) return;
  const Finished end = launcher_->finish();
  BOOST_FAIL("exit code " << end.exit_code << ": " << end.out << end.err);
}

void FaultyRun::train(int steps) {
  read_new_steps(*launcher_, dir_, steps);
}

void FaultyRun::hold(int least_ms, int most_ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(least_ms + pick(most_ms - least_ms)));
}

std::size_t FaultyRun::times_lost(int host) const {
  return num_events(dir_, "host", {{"host", name_of(host)}, {"state", "lost"}});
}

std::size_t FaultyRun::times_come(int host) const {
  const auto come = [&](const char* state) {
    return num_events(dir_, "host", {{"host", name_of(host)}, {"state", state}});
  };
  return come("spare") + come("joined");
}

int FaultyRun::pick_host_but(const std::set<int>& others) {
  int host = pick(num_hosts_ - static_cast<int>(others.size()));
  for (const int other : others)  // in order
    if (host >= other) ++host;
  return host;
}

void FaultyRun::wait_for_all_hosts() const {
  std::set<std::string> lost;
  do {
    wait_a_little();
    lost = lost_hosts(dir_);
  } while (!lost.empty());
}

}  // namespace troupe::test
