#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensor/device/process_group.h"
#include "transport/collectives/collective_memory.h"
#include "transport/collectives/flight_recorder.h"
#include "transport/edges/channel.h"
#include "transport/memory/slot_pool.h"
#include "transport/ucx/sent_bytes.h"
#include "transport/ucx/ucx_environment.h"

namespace troupe::transport {

struct UcxOptions {
  /// How long a waiting thread polls after the last event before it sleeps on the event descriptor.
  std::chrono::microseconds spin{50};
  /// The pool that the slots' memory comes from and returns to; memory in it outlives the node.
  /// Null: the node has a pool of its own.
  std::shared_ptr<SlotPool> slots{};
  /// The user's settings of UCX, which the node's own give way to.
  UcxEnvironment environment{};
};

/// One process's UCX worker and its progress thread. Channels and groups of the process share it.
/// Endpoints use UCX's peer error mode, shared memory included.
///
/// A node that shared memory with a process that was killed must be replaced: peers write into one
/// queue of the node's, and one that dies between taking a place in it and filling that place
/// blocks all that comes after (UCX's mm transports). Calls still end with an error, and the node
/// can be destroyed; but it may receive nothing any more. Over TCP the node stays usable.
class UcxNode {
 public:
  /// Throws Error{unavailable} with UCX's own words if the transports cannot be opened.
  static std::unique_ptr<UcxNode> create(const UcxOptions& options);
  virtual ~UcxNode() = default;

  /// This worker's address, at most 4 KiB, to be sent to peers over the control plane.
  virtual std::string address() const = 0;
  /// Connects to a peer. A connection to that rank that still works stays if incarnation and
  /// address are the same, and is replaced if not (a new life of a worker has a new incarnation).
  /// With UcxNetwork::interface it never waits for the peer; one that does not answer makes calls
  /// wait that need it. Memory is shared with peers on this host alone: channels and groups are to
  /// be opened after their peers are connected.
  virtual void connect(int rank, std::uint64_t incarnation, const std::string& address,
                       bool on_this_host = true) = 0;
  /// Force-closes the endpoint of a peer known to be dead: what is pending to it completes with an
  /// error. Whether the node may be used on: see above.
  virtual void disconnect(int rank) = 0;

  /// Changes UcxOptions::spin.
  virtual void set_spin(std::chrono::microseconds spin) = 0;
  /// What the channel and all groups have sent since the node was made. Callable from any thread.
  virtual SentBytes sent() = 0;
  /// Whether slots can lie in memory that peers of this host write into.
  virtual bool shares_memory() const = 0;
  /// The channel of this process. Lives as long as the node.
  virtual Channel& channel() = 0;
  /// The last collectives of all groups, the oldest first. Callable from any thread.
  virtual std::vector<OperationRecord> operations() = 0;
  /// A group of ranks, in ascending member order; this process is one of them. `name` appears in
  /// errors; (configuration, id) keeps groups apart and must agree on all members.
  virtual std::unique_ptr<tensor::ProcessGroup> make_group(std::uint64_t run,
                                                           std::uint32_t configuration, int id,
                                                           const std::string& name,
                                                           std::vector<int> ranks, int this_rank,
                                                           const CollectiveMemory& room = {}) = 0;
};

}  // namespace troupe::transport
