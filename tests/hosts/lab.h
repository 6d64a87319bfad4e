#pragma once

#include <string>
#include <vector>

#include "tests/support/program.h"

namespace troupe::test {

/// Hosts made of this machine, h0, h1, ..., on a network of their own (lab.py says what each has).
/// Labs beside each other do not meet. At the end, even of a test that is killed, nothing of it is
/// left. What cannot be done throws std::runtime_error.
class Lab {
 public:
  explicit Lab(int hosts);
  ~Lab();
  Lab(const Lab&) = delete;

  /// Runs a program on a host to its end, in the folder /. HostProgram is one that goes on.
  Finished run(int host, const std::vector<std::string>& words) const;

  /// Pulls the cable of a host: nobody is told, no connection is reset. `heal` puts it back.
  void cut(int host) { ask("cut", {host}); }
  void heal(int host) { ask("heal", {host}); }
  /// The cable first, then every process. `boot` starts the host anew, with nothing running.
  void poweroff(int host) { ask("poweroff", {host}); }
  void boot(int host);
  /// Two hosts do not reach each other any more, but everybody else. `undrop` is for all of them.
  void drop(int one, int other) { ask("drop", {one, other}); }
  void undrop() { ask("undrop", {}); }
  /// So many packets of a thousand that a host sends are lost.
  void loss(int host, int permille) { ask("loss", {host, permille}); }
  /// What a host sends and receives in a second, in megabits; 0: as much as it can.
  void rate(int host, int mbit) { ask("rate", {host, mbit}); }
  /// The host has an empty file system of its own at a folder that exists.
  void make_private(int host, const std::string& folder);
  /// Starts an SSH server on each host, with fresh keys. Afterwards a host runs a command on
  /// another by the words of `ssh`, its name, and the command.
  void start_ssh() { ask("ssh", {}); }
  static std::vector<std::string> ssh() { return {"ssh", "-F", "/run/lab/ssh_config"}; }
  /// Starts a Slurm whose nodes the hosts are. Afterwards a host gives it orders by the words of
  /// `slurm` and the command. `lacks_slurm` says what this machine lacks for it; empty if nothing.
  void start_slurm() { ask("slurm", {}); }
  static std::vector<std::string> slurm() {
    return {"env", "SLURM_CONF=/run/lab/slurm/slurm.conf"};
  }
  static std::string lacks_slurm();

  /// An address of a host; its names in /etc/hosts are h0 and h0-v6.
  static std::string address(int host) { return "10.88.0." + std::to_string(10 + host); }
  /// The first process of a host, as this machine numbers it. All others end with it.
  pid_t first_process(int host) const {
    return first_processes_.at(static_cast<std::size_t>(host));
  }
  /// The lab's own process, which hosts live no longer than.
  pid_t pid() const { return program_.pid(); }
  /// A process of a host, as this machine numbers it, and its words with spaces between.
  struct Process {
    pid_t pid;
    std::string command;
  };
  /// What runs on a host beside what a host itself is: its first processes and its servers of SSH
  /// and Slurm.
  std::vector<Process> processes(int host) const;

 private:
  std::string ask(const std::string& operation, const std::vector<int>& numbers);
  std::string answer();

  Program program_;
  std::vector<pid_t> first_processes_;
};

/// A program on a host of a lab, in the folder /. Signals go to it, and `pid` is its number on this
/// machine. It ends with its host, and before the lab.
class HostProgram : public Program {
 public:
  HostProgram(const Lab& lab, int host, const std::vector<std::string>& words);
  ~HostProgram() override;
  /// Waits until the program has begun. Throws if it has ended.
  pid_t pid() const override;
  /// Lets one go on that SIGSTOP has stopped.
  void go_on();

 private:
  pid_t child() const;
};

}  // namespace troupe::test
