#include "launch/commands/launching/takeover.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "actors/hosts/agent_calls.h"
#include "actors/messages/control_plane.h"
#include "launch/control/control_client.h"
#include "launch/hosts/launcher_evidence.h"
#include "launch/hosts/traits.h"
#include "launch/run/metrics_file.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

using Verdict = LauncherEvidence::Verdict;

/// Between two questions: a launcher that is there answers each agent twice a second.
constexpr std::chrono::milliseconds kAskEvery{400};
/// A launcher that is there answers a command within that time.
constexpr std::chrono::seconds kCommandPatience{2};
/// For a run in which nobody is ever silent for too long.
constexpr double kSilentS = 3;

/// Whether the launcher answers a command.
bool answers(const std::filesystem::path& run) try {
  const auto address = read_control(run);
  if (!address) return false;
  ControlClient client(*address, "status", nlohmann::json::object(), kCommandPatience);
  return client.receive(kCommandPatience).has_value();
} catch (const Error&) {
  return false;
}

[[noreturn]] void refuse_as_alone(const std::filesystem::path& run, std::size_t reached,
                                  std::size_t all) {
  throw Error(
      ErrorKind::retry,
      fmt::format("the launcher of {} ({}) does not answer, but holds its lock, and only {} "
                  "of its {} other hosts can be reached from here: it may be there for the "
                  "rest; try again on one of those, or end it",
                  run.string(), to_string(newest_term(run)), reached, all));
}

/// Throws Error{unavailable} if a host cannot obey this program.
void check_traits(const std::vector<std::optional<actors::AgentState>>& states, bool mixed_cpus) {
  const auto own = own_traits(!mixed_cpus);
  for (const auto& state : states) {
    if (!state) continue;
    if (const std::string why = actors::differs_in(state->hello, own); !why.empty())
      throw Error(ErrorKind::unavailable,
                  fmt::format("host {} cannot go on with this launcher: {}; or resume the run by "
                              "the program that it was launched by",
                              state->hello.host.name, why));
  }
}

std::size_t reached_of(const std::vector<std::optional<actors::AgentState>>& states) {
  return static_cast<std::size_t>(
      std::ranges::count_if(states, [](const auto& state) { return state.has_value(); }));
}

/// The last answers of the agents, once they show that the launcher is gone.
std::vector<std::optional<actors::AgentState>> wait_until_gone(const std::filesystem::path& run,
                                                               const HostsRecord& record,
                                                               double silent_s) {
  const actors::Authority authority(record.secret);
  const auto inquiry = actors::AgentInquiry::create(
      authority.issue(actors::Role::director, "another launcher"), record.agents);
  LauncherEvidence evidence(silent_s > 0 ? silent_s : kSilentS, has_launcher(run));
  while (true) {
    const double asked_s = actors::now_s();
    auto states = inquiry->ask();
    switch (evidence.take(states, asked_s)) {
      case Verdict::gone:
        return states;
      case Verdict::lives:
        refuse_as_live(run);
      case Verdict::alone:
        refuse_as_alone(run, reached_of(states), states.size());
      case Verdict::open:
        std::this_thread::sleep_for(kAskEvery);
    }
  }
}

}  // namespace

std::optional<LostRun> find_lost_run(const std::filesystem::path& run) {
  require_run(run);
  auto record = read_hosts_record(run / kHostsFile);
  if (!record || read_ending(run)) return std::nullopt;
  const bool is_locked = has_launcher(run);
  if (is_locked && answers(run)) refuse_as_live(run);
  const Manifest manifest = Manifest::read(run / kManifestFile, {});
  const auto states = wait_until_gone(run, *record, manifest->recovery.silent_s);
  check_traits(states, manifest->engine.mixed_cpus);
  LostRun lost{.record = std::move(*record), .agents = {}, .fate = {}};
  for (std::size_t i = 0; i < states.size(); ++i)
    if (states[i]) lost.agents.push_back(lost.record.agents[i]);
  if (lost.agents.empty()) return std::nullopt;
  lost.fate = fmt::format("the launcher ({}) {}", to_string(newest_term(run)),
                          is_locked ? "does not answer" : "is gone");
  return lost;
}

RunDirectory take_directory(const std::filesystem::path& run, const std::optional<LostRun>& lost) {
  return lost && has_launcher(run) ? RunDirectory::take_over(run) : RunDirectory::reopen(run);
}

HostsPlan plan_takeover(const LostRun& lost, std::int64_t term, bool keeps_workers,
                        ConsoleWriter& console) {
  std::string hosts;
  for (const auto& agent : lost.agents) hosts += (hosts.empty() ? "" : ", ") + agent.host;
  console.show(fmt::format(
      "takeover  {}; this is term {}; hosts that answer: {}{}\n", lost.fate, term, hosts,
      keeps_workers ? "" : "; their workers end, because --set changes what they do"));
  return {.start = lost.record.start == HostsPlan::Start::ssh ? HostsPlan::Start::ssh
                                                              : HostsPlan::Start::themselves,
          .named = lost.record.named,
          .count = lost.record.count,
          .token = lost.record.secret,  // which the agents trust
          .takeover = HostsPlan::Takeover{.agents = lost.agents,
                                          .term = static_cast<std::uint64_t>(term),
                                          .keeps_workers = keeps_workers}};
}

std::optional<actors::ClusterOptions::Predecessor> predecessor_of(
    const std::optional<LostRun>& lost, const RunDirectory& directory) {
  if (!lost) return std::nullopt;
  const MetricsEnd written = metrics_end(directory.path() / kMetricsFile);
  return actors::ClusterOptions::Predecessor{
      .fate = lost->fate, .reported = written.step, .evaluated = written.evaluated};
}

void record_hosts(const HostGathering& gathering, const RunDirectory& directory) {
  directory.write_private(kHostsFile, to_text(gathering.record()));
}

}  // namespace troupe::launch
