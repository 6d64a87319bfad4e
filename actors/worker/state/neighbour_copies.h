#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "actors/topology/configuration.h"
#include "actors/topology/state/state_plan.h"
#include "actors/worker/state/unit_state.h"
#include "transport/edges/channel.h"

namespace troupe::actors {

/// Copies of state between neighbours on the ring of copies (CopyRing): a rank gives the committed
/// state to its keeper, after every step or every RunSpec::Recovery::copy_interval-th, and holds
/// the newest two such states of the rank before it. A copy stays in the slots that its messages
/// arrived in. Every piece carries its checksum. With an interval a rank also holds its own two
/// states of these steps, in host memory: after a loss all go back to the same step. Of a state
/// that replicas divide these are the parts that it keeps, a twin's too, with which it stands in
/// for a replica that is lost. Used by the compute thread only.
class NeighbourCopies {
 public:
  /// A copy, which may outlive the channel that it was received on.
  struct HeldCopy {
    int rank = 0;            ///< rank whose state it is
    std::int64_t step = -1;  ///< updates in the copied state; -1: no copy
    TensorRow memory;  ///< the rank's units, or its parts of them (parts_in()), one after the other
    std::shared_ptr<transport::SlotMemory> owner;
    std::shared_ptr<const tensor::Buffer> own;  ///< instead of `owner`: of the rank's own state
    bool adopted = false;                       ///< received on an earlier channel
  };

  /// The rank keeps the copies of `source`; -1: of none.
  NeighbourCopies(const RunSpec& spec, const ClusterShape& shape, int rank, int source,
                  tensor::Device& device, transport::Channel& channel);

  /// Sends the state of `step` to the neighbour. The channel is open on copy_edges(). Returns once
  /// the state may change again.
  void send(const stages::Stage& stage, std::int64_t step);
  /// Waits for the neighbour's state of `step` and checks it. Throws Error{unavailable} for a
  /// damaged piece.
  void receive(std::int64_t step);
  /// Whether receive() of this step would not wait, or nothing is to come.
  bool is_here(std::int64_t step) const;
  /// Whether the state of this committed step is to be sent, or to come, and has not yet.
  bool must_send(std::int64_t step) const { return is_due(step) && sent_ != step; }
  bool must_receive(std::int64_t step) const {
    return before_ >= 0 && is_due(step) && !has_received(step);
  }

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
  void skip(const stages::Stage& stage, std::int64_t step);
  int source() const { return before_; }
  /// The copies that are held: the newest two of the source at most, and of the rank's own.
  std::vector<HeldCopy> take_out() const;
  /// Bytes of the copies of the rank's own state.
  std::int64_t own_bytes() const;

 private:
  bool is_due(std::int64_t step) const { return step % spec_.recovery.copy_interval == 0; }
  bool has_received(std::int64_t step) const;
  bool keeps_own() const { return spec_.recovery.copy_interval > 1; }
  int turn_of(std::int64_t step) const { return turn_of_copy(spec_, step); }
  void use(const stages::Stage& stage);
  void use_slices(const stages::Stage& stage, Kept kept);
  void keep_own(std::int64_t step);
  void drop_before(std::int64_t step);
  HeldCopy& free_copy();
  bool is_adopted(int turn) const;
  transport::MessageKey key(int rank, std::int64_t step, std::int64_t piece) const;

  const RunSpec& spec_;
  tensor::HostCopies copies_;
  transport::Channel& channel_;
  const int rank_, before_;
  const std::int64_t size_before_;  ///< number of elements in the state of the rank before
  const bool is_copied_;            ///< whether this rank's own state is copied
  const std::vector<Kept> kept_;    ///< whose slices it has, if replicas divide state; else empty
  std::int64_t sent_ = -1;
  TensorRow row_;  ///< the tensors that are being sent
  std::array<HeldCopy, 2> received_;
  std::array<HeldCopy, 2> own_;  ///< by turn; only with an interval
};

}  // namespace troupe::actors
