#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tensor/device/device.h"
#include "transport/edges/edge_memory.h"
#include "transport/edges/link.h"

namespace troupe::transport {

struct OpenConfiguration;

/// The sending end of an edge: its buffers, and the receiver's slots it holds credits for. A buffer
/// is free -> taken (by the compute thread) -> queued (no credit) -> leaving -> free. Credits go to
/// buffers in the order in which they were taken, which is that of the plan: a device may write
/// them in another one, and a message that took the last slot before an earlier one would leave the
/// receiver waiting for that. Guarded by the link's lock.
///
/// The outboxes of an end whose edges carry pieces of one tensor share the buffers' memory: a
/// buffer has the number of the tensor that it is a piece of, and each leaves on its own
/// (edge_ends.h). They are never in a receiver's slot, for the tensor is written in one place.
class Outbox {
 public:
  static constexpr int kNoSlot = -1;

  struct Buffer : OutgoingTensor {
    enum class State : std::uint8_t { free, taken, queued, leaving };
    State state = State::free;
    MessageKey key;
    /// Memory of this rank, of its device if the edge is on one: where the edge's piece lies.
    std::byte* own = nullptr;
    DeviceCopy* copy = nullptr;  ///< from there to a slot or a payload; null: the host reads `own`
    int slot = kNoSlot;          ///< the receiver's slot, once there is a credit
    bool in_slot = false;  ///< the compute thread writes into the receiver's slot, not into `own`
    std::uint64_t order = 0;  ///< position among the buffers in use
    Outbox* box = nullptr;
    OpenConfiguration* configuration = nullptr;
  };

  /// `memory` is for num_send_buffers(edge); `copies` of an edge to another rank on a device, by
  /// buffer. `shares`: other outboxes send from the same memory.
  Outbox(const Edge& edge, OpenConfiguration* configuration, std::shared_ptr<tensor::Buffer> memory,
         std::vector<std::unique_ptr<DeviceCopy>> copies, bool shares = false);

  const Edge& edge() const { return edge_; }
  EdgeId id() const {
    return {.chunk = edge_.chunk, .direction = edge_.direction, .digest = digest_};
  }
  int peer() const { return edge_.to; }
  bool is_local() const { return edge_.is_local(); }
  bool is_on_device() const { return !copies_.empty(); }
  const std::shared_ptr<tensor::Buffer>& memory() const { return memory_; }
  std::size_t payload_bytes() const { return to_.payloads.bytes(); }

  /// Takes note of a grant, until open() or decline(). False if the edge was granted before.
  bool admit_grant() { return !std::exchange(is_granted_, true); }
  void decline() { is_granted_ = false; }
  /// Takes the receiver's slots: all are free, or, if they are `kept`, credits follow.
  void open(SenderMemory to, bool kept = false);
  /// None before open().
  std::optional<EdgePlacement> placement() const;
  /// Notes that a slot of the receiver has become free. False if there is no such slot or it was
  /// free already.
  bool add_credit(int slot);

  std::span<Buffer> buffers() { return buffers_; }
  std::span<const Buffer> buffers() const { return buffers_; }
  bool is_free(std::size_t number) const { return buffers_[number].state == Buffer::State::free; }
  /// Takes a free buffer for the compute thread, in the receiver's slot if one is mapped and free.
  Buffer& take(std::size_t number, const MessageKey& key);
  /// Queues a taken buffer, which the compute thread has written.
  void queue(Buffer& buffer);
  int num_queued() const;
  bool has_queued() const { return num_queued() > 0; }
  bool is_empty() const;
  /// The oldest queued buffer that has a slot, now leaving. Null if there is none.
  Buffer* next_to_send();
  void recycle(Buffer& buffer);
  /// Frees the buffer of a local edge whose memory is `own`.
  void recycle_at(const std::byte* own);

  /// The tensor that the compute thread writes, of which a buffer is a piece: in the receiver's
  /// slot, or in memory of this rank.
  tensor::Tensor whole(const Buffer& buffer) const {
    std::byte* const data = buffer.in_slot ? mapped(buffer.slot) : buffer.own - whole_.offset;
    return {data, edge_.dtype, whole_.shape};
  }
  /// The copy that a leaving buffer needs first, to the receiver's slot or a payload; null: none.
  DeviceCopy* copy_of(const Buffer& buffer) const;
  /// What the buffer's payload leaves from.
  std::byte* payload_of(const Buffer& buffer) const;
  /// Where the edge's tensor lies in the receiver's slot as mapped here; null if it is not mapped.
  std::byte* mapped(int slot) const;
  std::uint64_t next_sequence() { return sequence_++; }

 private:
  tensor::Tensor view(std::byte* data) const { return {data, edge_.dtype, edge_.shape}; }
  /// Gives the slots that are free to the buffers in use that have none.
  void assign_slots();

  Edge edge_;
  std::uint64_t digest_ = 0;
  EndTensor whole_;     ///< what the compute thread writes
  EndTensor received_;  ///< what a slot of the receiver holds
  bool shares_ = false, is_granted_ = false, is_open_ = false;
  bool fills_slots_ = false;  ///< the compute thread may write into the receiver's slots
  SenderMemory to_;
  std::vector<std::unique_ptr<DeviceCopy>> copies_;
  /// The receiver's free slots, of which the last is used first: that which was freed last and is
  /// still in cache, or, if other senders have pieces for the same slots, that which was first.
  std::vector<int> credits_;
  std::shared_ptr<tensor::Buffer> memory_;
  std::vector<Buffer> buffers_;
  std::uint64_t order_ = 0;
  std::uint64_t sequence_ = 0;
};

}  // namespace troupe::transport
