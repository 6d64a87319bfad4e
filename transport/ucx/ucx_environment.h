#pragma once

#include <string>

namespace troupe::transport {

/// What the user's environment says of UCX, as far as it decides what a node sets itself. UCX reads
/// all UCX_* variables; a node adds settings only for what is not in them.
struct UcxEnvironment {
  std::string transports;                 ///< UCX_TLS; empty: unset, every transport may be used
  bool has_devices = false;               ///< UCX_NET_DEVICES is set
  bool has_rendezvous_threshold = false;  ///< UCX_RNDV_THRESH is set

  /// Whether UCX may use shared memory.
  bool may_share_memory() const;
};

/// For a program's start, before there is a second thread: reads the environment, and makes the
/// settings that UCX knows for a whole process only. What the user has set stays.
UcxEnvironment prepare_ucx();

}  // namespace troupe::transport
