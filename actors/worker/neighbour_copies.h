#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "actors/topology/epoch.h"
#include "actors/topology/state_plan.h"
#include "actors/worker/unit_state.h"
#include "transport/channel.h"

namespace troupe::actors {

/// A rank gives each committed state to the next stage of its replica, and holds that of the stage
/// before, this and the one before it: a copy lies in the slots that its messages arrived in.
/// Every piece carries its checksum. Runner thread only.
class NeighbourCopies {
 public:
  /// A copy that outlives the channel it came over.
  struct HeldCopy {
    int rank = 0;  ///< whose
    std::int64_t step = 0;
    TensorRow memory;  ///< the units of that rank one after the other
    std::shared_ptr<transport::SlotMemory> owner;
  };

  NeighbourCopies(const RunSpec& spec, const ClusterShape& shape, int rank, tensor::Device& device,
                  transport::Channel& channel);

  /// The channel is open on copy_edges(). Gives the state of `step` away. Returns as soon as it may
  /// change again.
  void send(const stages::Stage& stage, std::int64_t step);
  /// Waits for the neighbour's state of `step` and checks it. Throws Error{unavailable} for a
  /// damaged piece.
  void receive(std::int64_t step);
  bool has_sent(std::int64_t step) const { return sent_ == step; }
  bool has_received(std::int64_t step) const;

  /// The memory of the edges whose copies, of an epoch that ended, must not be written over before
  /// all ranks have reached this one. `is_copied`: what is held of `step` need not come again.
  std::vector<transport::KeptSlots> kept(const std::vector<HeldCopy>& held, std::int64_t step,
                                         bool is_copied) const;
  /// All ranks have reached the epoch: only adopted copies are needed still.
  void free_kept();
  /// The neighbour of the epoch before has given the same state: it need not come again.
  void adopt(const HeldCopy& copy);
  /// The neighbour holds this rank's state of `step` already: it is not sent.
  void skip(std::int64_t step) { sent_ = step; }
  int source() const { return before_; }
  /// The newest two copies.
  std::vector<HeldCopy> take_out() const;

 private:
  struct Copy {
    std::int64_t step = -1;  ///< -1: none
    TensorRow memory;
    std::shared_ptr<transport::SlotMemory> owner;
    bool adopted = false;  ///< not out of this channel
  };
  void drop_before(std::int64_t step);
  Copy& free_copy();
  bool is_adopted(int parity) const;
  transport::MessageKey key(int rank, std::int64_t step, std::int64_t piece) const;

  const RunSpec& spec_;
  tensor::Device& device_;
  const std::unique_ptr<tensor::Stream> stream_;
  transport::Channel& channel_;
  const int rank_, before_;
  const std::int64_t size_before_;  ///< elements of the stage before
  std::int64_t sent_ = -1;
  TensorRow row_;  ///< what is being sent
  std::array<Copy, 2> received_;
};

}  // namespace troupe::actors
