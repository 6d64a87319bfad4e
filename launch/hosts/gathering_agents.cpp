#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <utility>

#include "launch/hosts/gathering.h"
#include "tensor/errors/error.h"

// The commands that start the agents of other hosts.

namespace troupe::launch {
namespace {

using actors::Host;
using Start = HostsPlan::Start;

/// Between two tries to have Slurm start the agent of a node, which may be down for hours.
constexpr std::chrono::seconds kBetweenSruns{15};

std::vector<std::string> ssh_words(const std::string& command) {
  std::istringstream in(command);
  std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
  if (words.empty()) throw Error(ErrorKind::manifest, "cluster.ssh has no word");
  // Questions would wait for ever, as nobody sees them.
  if (std::filesystem::path(words.front()).filename() == "ssh")
    words.insert(words.end(), {"-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-T"});
  return words;
}

/// One task on each of these hosts of the allocation, all of which get the same invitation. A host
/// that is lost ends neither the others nor the job.
std::vector<std::string> srun_words(const std::vector<std::string>& hosts) {
  const std::string count = std::to_string(hosts.size());
  return {"srun",
          "--nodes=" + count,
          "--ntasks=" + count,
          "--ntasks-per-node=1",
          "--overlap",
          "--no-kill",
          "--kill-on-bad-exit=0",
          "--wait=0",
          "--quiet",
          "--nodelist=" + fmt::format("{}", fmt::join(hosts, ","))};
}

}  // namespace

/// Those of hosts that are there already run when their agent is lost.
std::vector<AgentStarter::Command> HostGathering::agent_commands(
    const std::vector<std::string>& hosts, const std::set<std::string>& there) const {
  const std::vector<std::string> program{
      engine_.program.empty() ? std::filesystem::read_symlink("/proc/self/exe").string()
                              : engine_.program,
      "join", "-"};
  std::vector<AgentStarter::Command> commands;
  const auto add = [&](const std::string& host, std::vector<std::string> words) {
    words.insert(words.end(), program.begin(), program.end());
    commands.push_back({.host = host,
                        .words = std::move(words),
                        .input = invitation_to(host),
                        .is_there = there.contains(host)});
  };
  if (plan_.start == Start::ssh) {
    for (const std::string& host : hosts) {
      std::vector<std::string> words = ssh_words(engine_.ssh);
      words.push_back(host);
      add(host, std::move(words));
    }
    return commands;
  }
  std::vector<std::string> absent;
  for (const std::string& host : hosts) {
    if (!there.contains(host)) absent.push_back(host);
    add(host, srun_words({host}));
    commands.back().is_there = true;  // as one command has started it with the others
    commands.back().between = kBetweenSruns;
  }
  if (absent.empty()) return commands;
  add("", srun_words(absent));
  commands.back().again = false;
  return commands;
}

void HostGathering::start_agents() {
  if (plan_.start == Start::themselves) return;
  const std::set<std::string> there = hosts_there();
  std::vector<std::string> others;
  for (const Host& host : plan_.named)
    if (host.name != own_) others.push_back(host.name);
  if (others.empty()) return;
  const std::lock_guard lock(starting_->mutex);  // hosts that are lost from now on are told it
  starting_->starter = std::make_unique<AgentStarter>(
      agent_commands(others, there),
      [this](const std::string& host, const std::string& cause) { return on_end(host, cause); });
  const std::set<std::string> still_there = hosts_there();
  for (const std::string& host : there)
    if (!still_there.contains(host)) starting_->starter->again(host);
}

}  // namespace troupe::launch
