#include "tests/hosts/lab.h"

#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "tests/support/troupe_program.h"

namespace troupe::test {
namespace {

namespace fs = std::filesystem;

const std::string kProgram = TROUPE_SOURCE_FOLDER "/tests/hosts/lab.py";

std::vector<std::string> entering(pid_t first_process, const std::vector<std::string>& words) {
  std::vector<std::string> all{"nsenter", "--target=" + std::to_string(first_process),
                               "--net",   "--ipc",
                               "--uts",   "--mount",
                               "--pid",   "--time",
                               "--"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

/// What tells the host of a process; empty if the process has ended.
std::string host_of(pid_t pid) {
  std::error_code ended;
  return fs::read_symlink("/proc/" + std::to_string(pid) + "/ns/pid", ended).string();
}

}  // namespace

Lab::Lab(int hosts) : program_({kProgram, std::to_string(hosts)}, Program::Input::written) {
  std::istringstream pids(answer());
  for (pid_t pid = 0; pids >> pid;) first_processes_.push_back(pid);
}

Lab::~Lab() {
  program_.end_input();
  program_.finish();
}

std::string Lab::answer() {
  const std::string line = program_.read_line();
  if (line.empty()) throw std::runtime_error("lab.py: " + program_.finish().err);
  if (!line.starts_with("ok")) throw std::runtime_error("lab.py: " + line);
  return line.substr(2);
}

std::string Lab::ask(const std::string& operation, const std::vector<int>& numbers) {
  std::string line = operation;
  for (const int number : numbers) line += " " + std::to_string(number);
  program_.write(line + "\n");
  return answer();
}

void Lab::boot(int host) {
  first_processes_.at(static_cast<std::size_t>(host)) = std::stoi(ask("boot", {host}));
}

void Lab::make_private(int host, const std::string& folder) {
  ask("private " + std::to_string(host) + " '" + folder + "'", {});
}

std::string Lab::lacks_slurm() {
  const Finished check = Program({kProgram, "--check", "slurm"}).finish();
  return check.exit_code == 0 ? "" : check.out + check.err;
}

Finished Lab::run(int host, const std::vector<std::string>& words) const {
  return Program(entering(first_process(host), words)).finish();
}

std::vector<Lab::Process> Lab::processes(int host) const {
  const pid_t first = first_process(host);
  const std::string wanted = host_of(first);
  std::vector<Process> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || wanted.empty() || host_of(pid) != wanted || !is_alive(pid)) continue;
    std::string command = of_process(pid, "cmdline");
    std::ranges::replace(command, '\0', ' ');
    const std::string name = of_process(pid, "comm");
    if (pid != first && command != "sleep infinity " && name != "sshd\n" && name != "slurmd\n")
      found.push_back({.pid = pid, .command = command});
  }
  return found;
}

HostProgram::HostProgram(const Lab& lab, int host, const std::vector<std::string>& words)
    : Program(entering(lab.first_process(host), words)) {}

HostProgram::~HostProgram() {
  if (Program::pid() > 0)
    if (const pid_t pid = child(); pid > 0) kill(pid, SIGKILL);
}

pid_t HostProgram::child() const {
  // The process that was started enters the host, and waits there for its child.
  const std::string pids =
      of_process(Program::pid(), "task/" + std::to_string(Program::pid()) + "/children");
  return pids.empty() ? 0 : std::stoi(pids);
}

void HostProgram::go_on() {
  kill(pid(), SIGCONT);
  kill(Program::pid(), SIGCONT);  // which has stopped with its child
}

pid_t HostProgram::pid() const {
  pid_t pid = 0;
  while ((pid = child()) == 0) {
    if (!is_alive(Program::pid())) throw std::runtime_error("a program on a host has ended");
    sched_yield();
  }
  return pid;
}

}  // namespace troupe::test
