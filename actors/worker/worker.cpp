#include <sched.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <caf/actor_system.hpp>
#include <caf/io/middleman.hpp>
#include <caf/scoped_actor.hpp>
#include <thread>
#include <utility>

#include "actors/director/cluster.h"
#include "actors/worker/stage_actor.h"
#include "tensor/error.h"

namespace troupe::actors {
namespace {

/// How long a worker may take to leave in order before it simply ends.
constexpr std::chrono::seconds kLeaveDeadline{3};

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// Binds the process, and with it every thread it starts later, to `threads` of the cores it may
/// use.
void pin(int id, int threads) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t mine;
  CPU_ZERO(&mine);
  int seen = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed) && seen++ / threads == id) CPU_SET(cpu, &mine);
  if (CPU_COUNT(&mine) == threads) sched_setaffinity(0, sizeof mine, &mine);
}

std::string ask_manifest(caf::actor_system& system, const caf::actor& director,
                         const std::string& token) {
  caf::scoped_actor self{system};
  std::string manifest, error;
  self->request(director, kRequestDeadline, Hello{.token = token})
      .receive([&](const Welcome& welcome) { manifest = welcome.manifest; },
               [&](const caf::error& e) { error = system.render(e); });
  if (!error.empty())
    throw Error(ErrorKind::unavailable, "the launcher did not welcome this worker: " + error);
  return manifest;
}

/// A process that cannot leave in order must still leave.
void leave_by(std::chrono::seconds deadline) {
  std::thread([deadline] {
    std::this_thread::sleep_for(deadline);
    std::_Exit(0);
  }).detach();
}

void train(caf::actor_system& system, const WorkerBirth& birth,
           const std::function<RunSpec(const std::string&)>& parse) {
  const auto director =
      system.middleman().remote_actor(birth.host, static_cast<std::uint16_t>(birth.port));
  if (!director)
    throw Error(ErrorKind::unavailable, "cannot reach the launcher at " + birth.host + ":" +
                                            std::to_string(birth.port) + ": " +
                                            system.render(director.error()));
  const RunSpec spec = parse(ask_manifest(system, *director, birth.token));
  if (spec.cluster.pin) pin(birth.id, spec.cluster.threads);
  const std::chrono::microseconds spin(spec.cluster.spin ? 50 : 0);
  Member self{.id = birth.id,
              .incarnation = birth.incarnation,
              .pid = getpid(),
              .host = host_name(),
              .address = ""};
  RankTrainer trainer(spec, self, [spin](auto slots) {
    return transport::UcxNode::create({.spin = spin, .slots = std::move(slots)});
  });
  self.address = trainer.address();
  const Join join{.token = birth.token, .member = self};
  Runner runner(trainer, birth.incarnation);
  const caf::actor stage = system.spawn<StageActor>(*director, join, std::ref<StageRunner>(runner));
  runner.run([&](RunnerAnswer answer) { caf::anon_send(stage, std::move(answer)); });
  leave_by(kLeaveDeadline);
  caf::scoped_actor here{system};
  here->send_exit(stage, caf::exit_reason::user_shutdown);
  here->wait_for(stage);
}

}  // namespace

int run_worker(const WorkerBirth& birth, const std::function<RunSpec(const std::string&)>& parse) {
  // The launcher decides when a worker ends; a terminal's signals are for the launcher.
  for (const int signal : {SIGINT, SIGHUP, SIGPIPE}) ::signal(signal, SIG_IGN);
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
  spdlog::flush_on(spdlog::level::info);
  spdlog::info("worker {} starts as process {}", birth.id, getpid());
  try {
    ControlPlaneConfig config(1);
    caf::actor_system system{config};
    train(system, birth, parse);
    return 0;
  } catch (const Error& error) {
    spdlog::error("{}", error.what());
    return static_cast<int>(error.kind());
  }
}

}  // namespace troupe::actors
