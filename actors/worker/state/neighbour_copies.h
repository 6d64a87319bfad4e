#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "actors/topology/configuration.h"
#include "actors/topology/state_plan.h"
#include "actors/worker/state/unit_state.h"
#include "transport/edges/channel.h"

namespace troupe::actors {

/// Copies of state between neighbours on the ring of copies (CopyRing): a rank gives each committed
/// state to its keeper, and holds the newest two states of the rank before it. A copy stays in the
/// slots that its messages arrived in. Every piece carries its checksum. Used by the compute thread
/// only.
class NeighbourCopies {
 public:
  /// A copy, which may outlive the channel that it was received on.
  struct HeldCopy {
    int rank = 0;            ///< rank whose state it is
    std::int64_t step = -1;  ///< updates in the copied state; -1: no copy
    TensorRow memory;        ///< the rank's units, one after the other
    std::shared_ptr<transport::SlotMemory> owner;
    bool adopted = false;  ///< received on an earlier channel
  };

  /// The rank keeps the copies of `source`.
  NeighbourCopies(const RunSpec& spec, const ClusterShape& shape, int rank, int source,
                  tensor::Device& device, transport::Channel& channel);

  /// Sends the state of `step` to the neighbour. The channel is open on copy_edges(). Returns once
  /// the state may change again.
  void send(const stages::Stage& stage, std::int64_t step);
  /// Waits for the neighbour's state of `step` and checks it. Throws Error{unavailable} for a
  /// damaged piece.
  void receive(std::int64_t step);
  bool has_sent(std::int64_t step) const { return sent_ == step; }
  bool has_received(std::int64_t step) const;

  /// The slots of held copies that must not be overwritten before all ranks have reached this
  /// configuration. `is_copied`: the held copy of `step` serves the new configuration and is not
  /// sent again.
  std::vector<transport::KeptSlots> kept(const std::vector<HeldCopy>& held, std::int64_t step,
                                         bool is_copied) const;
  /// Frees kept slots once all ranks have reached the configuration; only those of adopted copies
  /// stay.
  void free_kept();
  /// Takes over a copy that the neighbour sent in the configuration before; the same state is not
  /// sent again.
  void adopt(const HeldCopy& copy);
  /// Notes that the neighbour holds this rank's state of `step` already, so that it is not sent.
  void skip(std::int64_t step) { sent_ = step; }
  int source() const { return before_; }
  /// The copies that are held: the newest two at most.
  std::vector<HeldCopy> take_out() const;

 private:
  void drop_before(std::int64_t step);
  HeldCopy& free_copy();
  bool is_adopted(int parity) const;
  transport::MessageKey key(int rank, std::int64_t step, std::int64_t piece) const;

  const RunSpec& spec_;
  tensor::HostCopies copies_;
  transport::Channel& channel_;
  const int rank_, before_;
  const std::int64_t size_before_;  ///< number of elements in the state of the rank before
  std::int64_t sent_ = -1;
  TensorRow row_;  ///< the tensors that are being sent
  std::array<HeldCopy, 2> received_;
};

}  // namespace troupe::actors
