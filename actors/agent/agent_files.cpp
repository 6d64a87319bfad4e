#include "actors/agent/agent_files.h"

#include <caf/typed_actor.hpp>

#include "actors/files/file_looks.h"

namespace troupe::actors {
namespace {

using Bringer = caf::typed_actor<caf::replies_to<FilesNeeded>::with<FilesHere>>;

}  // namespace

void AgentFiles::bring(const FilesAway& away) {
  launcher_ = away.source;
  if (!bringer_)
    bringer_ =
        agent_.spawn<BringActor, caf::detached>(BringContext{.host = spec_.hello.host.name,
                                                             .launcher = spec_.address,
                                                             .cache = spec_.cache,
                                                             .stop = stop_.get_token(),
                                                             .thread = own_threads_.token()});
  agent_.send(bringer_, away);
}

FilesBrought AgentFiles::brought(const Brought& result) {
  run_ = result.run;
  if (parts_)
    agent_.send(parts_, TailsGoTo{.launcher = launcher_});
  else if (!run_.empty())
    parts_ = agent_.spawn<PartsActor, caf::detached>(spec_.hello.host.name, run_, launcher_,
                                                     own_threads_.token());
  return {.error = result.error, .parts = parts_};
}

caf::result<FilesHere> AgentFiles::need(const FilesNeeded& needed) {
  if (!bringer_) return FilesHere{.path = needed.path, .error = ""};
  return agent_.delegate(caf::actor_cast<Bringer>(bringer_), needed);
}

void AgentFiles::place(WorkerBootstrap& worker) {
  worker.has_agent = true;
  if (run_.empty()) return;
  worker.run_dir = run_;
  const std::filesystem::path log =
      run_ / "logs" / std::filesystem::path(worker.log_dir).filename();
  worker.log_dir = log;
  agent_.send(parts_, LogBegins{.incarnation = worker.incarnation, .file = log / kWorkerLog});
}

bool AgentFiles::tells_of(const WorkerExited& exit) {
  if (parts_) agent_.send(parts_, LogEnds{.exit = exit});
  return static_cast<bool>(parts_);
}

/// On a thread of its own, because a network file system may take its time.
void AgentFiles::look_for(const FilesWanted& wanted) {
  agent_.system().spawn<caf::detached>([agent = caf::actor_cast<caf::actor>(&agent_), wanted,
                                        stop = stop_.get_token(), thread = own_threads_.token()] {
    caf::anon_send(agent, FilesLookedFor{.seen = look_for_files(wanted, stop)});
  });
}

void AgentFiles::end() {
  stop_.request_stop();
  for (const caf::actor& actor : {bringer_, parts_})
    if (actor) agent_.send_exit(actor, caf::exit_reason::user_shutdown);
  bringer_ = parts_ = launcher_ = nullptr;
}

}  // namespace troupe::actors
