#pragma once

#include <filesystem>
#include <vector>

#include "actors/files/files_offer.h"
#include "actors/files/served_files.h"
#include "actors/messages/control_plane.h"
#include "actors/messages/own_threads.h"

namespace troupe::actors {

/// The order to end once all that was asked before is done. Sent only within the launcher.
struct RunFilesEnd {};

/// Gives files of a run to hosts that do not see them, and takes what their workers said last into
/// the run's directory. On a thread of its own, because disks take their time. Other hosts may read
/// checkpoints of the run and what is offered, and nothing else.
class RunFilesActor : public ControlActor {
 public:
  RunFilesActor(caf::actor_config& config, const FilesOffer& offer, OwnThreads::Token thread);
  caf::behavior make_behavior() override;

 private:
  void on_failure(const std::string& what) override;
  void on_error_of_peer(const std::string&) override {}

  const std::filesystem::path run_;
  ServedFiles files_;
  const OwnThreads::Token thread_;
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::RunFilesEnd)
