#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/hosts/hosts_runs.h"

namespace troupe::test {

/// A run over hosts of a lab that suffers faults of these, one after another. Faults are of hosts
/// that the launcher is not on, which moves when it is lost.
class FaultyRun {
 public:
  /// Launches a run of one of some shapes on host 0, and waits until it trains. The seed chooses
  /// all, and three that follow each other draw from all kinds of faults between them.
  FaultyRun(const Workplace& place, const std::string& name, std::uint64_t seed);

  /// "3 stages, a spare host of 4".
  const std::string& shape() const { return shape_; }
  /// The keys that losses depend on.
  const Keys& reference() const { return reference_; }
  /// A fault of a host, by its kind.
  struct Fault {
    std::size_t kind = 0;
    int host = 1;
  };
  Fault draw();
  static std::string describe(const Fault& fault);
  /// Lets a fault happen and undoes it; the run then goes on, and all hosts are there again. If
  /// that takes minutes, the test ends at once with what the run and its hosts were about.
  void suffer(const Fault& fault);
  /// Ends the run. What each of its steps measured.
  std::map<int, StepNumbers> stop();

  // What a fault does, until what it leads to is seen, and undoes.
  void pull_cable(int host);
  void loosen_cable(int host);
  void power_off(int host);
  void lose_packets(int host);
  void slow_down(int host);
  void stop_agent(int host);
  void kill_agent(int host);
  void kill_ssh(int host);
  void stop_worker(int host);
  void kill_worker(int host);
  void stop_launcher(int host);
  void part(int host);
  void kill_launcher(int host);
  void power_launcher_off(int host);

 private:
  int pick(int count) { return static_cast<int>(rng_() % static_cast<unsigned>(count)); }
  /// One of the hosts that are not these.
  int pick_host_but(const std::set<int>& others);
  /// Strikes a host, and waits until the run has lost it.
  template <typename Strike>
  void lose(int host, const Strike& strike);
  void fail_worker(int host, int signal);
  void take_over(int host);
  void train(int steps);
  void hold(int least_ms, int most_ms);
  std::string state() const;
  std::size_t times_lost(int host) const;
  std::size_t times_come(int host) const;
  void wait_for_all_hosts() const;

  std::mt19937_64 rng_;
  std::vector<std::size_t> kinds_;  // of the faults to draw
  Keys reference_;
  int num_hosts_ = 0;
  int launcher_host_ = 0;
  std::string shape_, dir_;
  std::optional<Lab> lab_;
  std::optional<HostProgram> launcher_;
};

}  // namespace troupe::test
