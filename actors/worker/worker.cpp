#include "actors/worker/worker.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <caf/actor_system.hpp>
#include <caf/io/middleman.hpp>
#include <caf/scoped_actor.hpp>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "actors/messages/start_deadline.h"
#include "actors/worker/stage_actor.h"
#include "tensor/errors/error.h"
#include "tensor/errors/shortage.h"

namespace troupe::actors {
namespace {

/// The time that a worker has to leave in order before its process simply ends.
constexpr std::chrono::seconds kLeaveDeadline{3};

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

Welcome ask_to_join(caf::actor_system& system, const caf::actor& door, const std::string& token) {
  caf::scoped_actor self{system};
  Welcome answer;
  std::string error;
  self->request(door, kRequestDeadline, Hello{.token = token})
      .receive([&](const Welcome& welcome) { answer = welcome; },
               [&](const caf::error& e) { error = system.render(e); });
  if (!error.empty())
    throw Error(ErrorKind::unavailable, "the launcher did not welcome this worker: " + error);
  return answer;
}

/// Ends the process after the deadline, if it has not left in order before.
void leave_by(std::chrono::seconds deadline) {
  std::thread([deadline] {
    std::this_thread::sleep_for(deadline);
    std::_Exit(0);
  }).detach();
}

/// The run as this host has it, which does not see the run's directory.
RunSpec in_own_directory(RunSpec spec, const std::string& run_dir) {
  spec.dir = run_dir;
  if (std::string& tuning = spec.cluster.device.tuning; !tuning.empty())
    tuning = run_dir + "/" + std::filesystem::path(tuning).filename().string();
  return spec;
}

/// Asks the host's agent for files.
WorkerFiles files_of(caf::actor_system& system, const caf::actor& agent,
                     const WorkerBootstrap& bootstrap) {
  constexpr std::chrono::milliseconds kAskWhether{200};
  const auto bring = [&system, agent, token = bootstrap.token](const std::string& path,
                                                               const std::function<void()>& go_on) {
    caf::scoped_actor self{system};
    self->send(agent, FilesNeeded{.token = token, .path = path});
    std::optional<FilesHere> here;
    while (!here) {
      self->receive([&](const FilesHere& files) { here = files; },
                    [&](const caf::error& error) {
                      throw Error(ErrorKind::unavailable,
                                  "the host's agent has no files: " + system.render(error));
                    },
                    caf::after(kAskWhether) >> [&] { go_on(); });
    }
    if (!here->error.empty()) throw Error(static_cast<ErrorKind>(here->kind), here->error);
    return here->path;
  };
  return {bring, !bootstrap.run_dir.empty()};
}

void train(caf::actor_system& system, const WorkerBootstrap& bootstrap,
           const std::function<RunSpec(const std::string&)>& parse,
           const transport::UcxEnvironment& ucx) {
  // The director of a run on this host, else the host's agent.
  const auto door =
      system.middleman().remote_actor(bootstrap.host, static_cast<std::uint16_t>(bootstrap.port));
  if (!door)
    throw Error(ErrorKind::unavailable, "cannot reach the launcher at " + bootstrap.host + ":" +
                                            std::to_string(bootstrap.port) + ": " +
                                            system.render(door.error()));
  const Welcome welcome = ask_to_join(system, *door, bootstrap.token);
  RunSpec spec = parse(welcome.manifest);
  spec.cluster.cores = bootstrap.cores;
  spec.cluster.failed_gpus = bootstrap.failed_gpus;
  if (!bootstrap.run_dir.empty()) spec = in_own_directory(std::move(spec), bootstrap.run_dir);
  Member self{.id = bootstrap.id,
              .incarnation = bootstrap.incarnation,
              .pid = getpid(),
              .host = bootstrap.on.empty() ? host_name() : bootstrap.on,
              .address = ""};
  const auto make_node = [&ucx](auto slots) {
    auto node = transport::UcxNode::create({.slots = std::move(slots), .environment = ucx});
    if (ucx.may_share_memory() && !node->shares_memory())
      spdlog::warn("no shared memory for messages, which are slower without it: ipcs -l");
    return node;
  };
  RankExecutor executor(spec, self, make_node,
                        bootstrap.has_agent ? files_of(system, *door, bootstrap) : WorkerFiles());
  self.address = executor.address();
  self.gpu = executor.gpu();
  const Join join{.token = bootstrap.token, .member = self};
  OrderLoop loop(executor, bootstrap.incarnation);
  const caf::actor stage = system.spawn<StageActor>(
      LauncherRefs{.director = welcome.director, .door = *door}, join, std::ref<OrderSink>(loop));
  loop.run([&](StageAnswer answer) { caf::anon_send(stage, std::move(answer)); });
  leave_by(kLeaveDeadline);
  caf::scoped_actor here{system};
  here->send_exit(stage, caf::exit_reason::user_shutdown);
  here->wait_for(stage);
}

}  // namespace

int run_worker(const WorkerBootstrap& bootstrap,
               const std::function<RunSpec(const std::string&)>& parse,
               const transport::UcxEnvironment& ucx) {
  // The launcher decides when a worker ends. Signals of a terminal, and those that a batch system
  // or a service manager sends to all processes of a job before it kills them, are for the
  // launcher, which has the workers save what they hold.
  for (const int signal : {SIGINT, SIGHUP, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGPIPE})
    ::signal(signal, SIG_IGN);
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %z %l %v");
  spdlog::flush_on(spdlog::level::info);
  spdlog::info("worker {} starts as process {}", bootstrap.id, getpid());
  try {
    ControlPlaneConfig config(1);
    std::optional<StartDeadline> deadline(std::in_place);
    caf::actor_system system{config};
    deadline.reset();
    train(system, bootstrap, parse, ucx);
    return 0;
  } catch (const Error& error) {
    spdlog::error("{}", error.what());
    return static_cast<int>(error.kind());
  } catch (const std::exception& error) {
    const auto lacks = as_shortage(error);
    if (!lacks) throw;
    spdlog::error("{}", lacks->what());
    return static_cast<int>(lacks->kind());
  }
}

}  // namespace troupe::actors
