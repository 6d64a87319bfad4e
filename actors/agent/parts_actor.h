#pragma once

#include <caf/actor.hpp>
#include <filesystem>
#include <map>
#include <string>

#include "actors/files/log_tails.h"
#include "actors/files/served_files.h"
#include "actors/messages/control_plane.h"
#include "actors/messages/own_threads.h"
#include "actors/protocol/protocol_events.h"

namespace troupe::actors {

/// A worker will write into its log, and has ended. Sent only within the agent. LogEnds is sent
/// back when what the worker said is on its way to the launcher.
struct LogBegins {
  std::uint64_t incarnation = 0;
  std::filesystem::path file;
};
struct LogEnds {
  WorkerExited exit;
};
/// Another launcher takes the tails of logs from now on. Sent only within the agent.
struct TailsGoTo {
  caf::actor launcher;
};

/// What a host that does not see the run's directory has of the run, for the launcher: parts of
/// checkpoints, block by block, until they are dropped, and what workers said last. On a thread of
/// its own, because disks take their time.
class PartsActor : public ControlActor {
 public:
  /// `run` is run_folder(); `launcher` takes the tails of logs.
  PartsActor(caf::actor_config& config, std::string host, std::filesystem::path run,
             caf::actor launcher, OwnThreads::Token thread);
  caf::behavior make_behavior() override;
  void on_exit() override { launcher_ = nullptr; }

 private:
  void tell_log(std::uint64_t incarnation);
  void tell_collectives();
  void on_failure(const std::string& what) override;
  void on_error_of_peer(const std::string&) override {}

  const std::string host_;
  const std::filesystem::path run_;
  caf::actor launcher_;
  ServedFiles parts_;
  LogTails tails_;
  std::map<std::uint64_t, std::filesystem::path> logs_;  ///< of workers that live
  const OwnThreads::Token thread_;
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::LogBegins)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::LogEnds)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::TailsGoTo)
