// Measures how fast agents join a launcher.
//
//   join_bench AGENTS
//
// The launcher's door for hosts in this process, and so many agents, with an actor system each, in
// children of it: all join at once, over TLS on loopback, and stay. Prints one JSON line {"join_s",
// "cpu_s"}: seconds until the last has joined, and the launcher's processor time meanwhile.

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "actors/agent/host_agent.h"
#include "actors/hosts/hosts.h"
#include "actors/messages/secret.h"
#include "tensor/errors/error.h"

namespace troupe::bench {
namespace {

using namespace actors;
using Clock = std::chrono::steady_clock;

constexpr const char* kHere = "127.0.0.1";
/// CAF tells 256 actor systems of a process apart.
constexpr int kAgentsOfProcess = 200;

/// The end of a socket to another process.
class Line {
 public:
  explicit Line(int fd) : fd_(fd) {}
  void tell(const std::string& text) const {
    if (write(fd_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      throw Error(ErrorKind::unavailable, "the other process is gone");
  }
  /// What the other has told; empty if it is gone.
  std::string hear() const {
    std::string text(256, '\0');
    const ssize_t got = read(fd_, text.data(), text.size());
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
  }

 private:
  int fd_;
};

std::unique_ptr<HostAgent> make_agent(const Authority& authority, int port,
                                      const std::string& host) {
  const Credentials credentials = authority.issue(Role::host, host);
  return HostAgent::create({.hello = {.token = credentials.token,
                                      .host = {.name = host, .slots = 1},
                                      .incarnation = random_u64(),
                                      .address = kHere,
                                      .traits = {}},
                            .credentials = credentials,
                            .address = kHere,
                            .port = port,
                            .patience_s = 60,
                            .worker_command = {"/bin/false"}});
}

void run(HostAgent& agent) {
  try {
    const Outcome outcome = agent.run();
    if (outcome.exit_code != 0) std::cerr << fmt::format("an agent: {}\n", outcome.reason);
  } catch (const Error& error) {
    std::cerr << fmt::format("an agent: {}\n", error.what());
  }
}

/// The agents `first` to `last` - 1, which join when they are told the launcher's port, and stay
/// until it is gone.
void be_agents(const Line& launcher, const std::string& secret, int first, int last) {
  const int port = std::stoi(launcher.hear());
  const Authority authority(secret);
  std::vector<std::unique_ptr<HostAgent>> agents;
  for (int i = first; i < last; ++i)
    agents.push_back(make_agent(authority, port, "h" + std::to_string(i)));
  launcher.tell("ready");
  launcher.hear();
  std::vector<std::jthread> threads;
  for (const auto& agent : agents) threads.emplace_back([&agent] { run(*agent); });
  launcher.hear();
  for (const auto& agent : agents) agent->end({});
}

/// A process with these agents.
Line start_agents(const std::string& secret, int first, int last) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  if (fork() != 0) {
    close(ends[1]);
    return Line(ends[0]);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  close(ends[0]);
  be_agents(Line(ends[1]), secret, first, last);
  std::_Exit(0);
}

void measure(int count) {
  const std::string secret = random_token();
  std::vector<Line> processes;  // before there is a second thread
  for (int first = 0; first < count; first += kAgentsOfProcess)
    processes.push_back(start_agents(secret, first, std::min(count, first + kAgentsOfProcess)));
  const auto hosts =
      Hosts::open({.address = kHere,
                   .credentials = Authority(secret).issue(Role::director, "director"),
                   .silent_s = 0});
  for (const Line& agents : processes) agents.tell(std::to_string(hosts->port()));
  for (const Line& agents : processes) agents.hear();
  const auto begin = Clock::now();
  const std::clock_t used = std::clock();
  for (const Line& agents : processes) agents.tell("join");
  hosts->registry().wait(
      [&] { return hosts->registry().entries().size() == static_cast<std::size_t>(count); });
  const double join_s = std::chrono::duration<double>(Clock::now() - begin).count();
  const double cpu_s = static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC;
  std::cout << fmt::format(R"({{"join_s": {:.4f}, "cpu_s": {:.4f}}})", join_s, cpu_s) << std::endl;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw troupe::Error(troupe::ErrorKind::usage, "usage: join_bench AGENTS");
    troupe::bench::measure(std::stoi(argv[1]));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "join_bench: " << error.what() << '\n';
    return 1;
  }
}
