#pragma once

#include <caf/actor.hpp>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "actors/files/brought_files.h"
#include "actors/messages/control_plane.h"
#include "actors/messages/own_threads.h"

namespace troupe::actors {

/// What a BringActor works with.
struct BringContext {
  std::string host;                    ///< name of this host
  std::string launcher;                ///< AgentSpec::address
  std::function<std::string()> cache;  ///< AgentSpec::cache
  std::stop_token stop;                ///< requested when the agent ends
  OwnThreads::Token thread;
};

/// What has become of FilesAway. Sent only within the agent.
struct Brought {
  std::string error;
  std::filesystem::path run;  ///< the host's own folder of the run, if it does not see the run's
};

/// Brings files of the launcher's host, on a thread of its own, one order after the other: carries
/// out FilesAway, and answers FilesNeeded. What is brought for this run alone goes with it.
class BringActor : public ControlActor {
 public:
  BringActor(caf::actor_config& config, BringContext context)
      : ControlActor(config), context_(std::move(context)) {}
  caf::behavior make_behavior() override;
  void on_exit() override;

 private:
  Brought bring_all(const FilesAway& away);
  FilesHere bring(const FilesNeeded& needed);
  std::string bring_path(const std::string& path);
  void on_failure(const std::string& what) override;
  void on_error_of_peer(const std::string&) override {}

  const BringContext context_;
  caf::actor source_;
  std::filesystem::path run_;
  std::optional<BroughtFiles> files_;
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::Brought)
