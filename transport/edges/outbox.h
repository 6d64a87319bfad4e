#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
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
class Outbox {
 public:
  static constexpr int kNoSlot = -1;

  struct Buffer : OutgoingTensor {
    enum class State : std::uint8_t { free, taken, queued, leaving };
    State state = State::free;
    MessageKey key;
    std::byte* own = nullptr;    ///< memory of this rank, of its device if the edge is on one
    DeviceCopy* copy = nullptr;  ///< from there to a slot or a payload; null: the host reads `own`
    int slot = kNoSlot;          ///< the receiver's slot, once there is a credit
    bool in_slot = false;  ///< the compute thread writes into the receiver's slot, not into `own`
    std::uint64_t order = 0;  ///< position among the buffers in use
    Outbox* box = nullptr;
    OpenConfiguration* configuration = nullptr;
  };

  /// `memory` is for num_send_buffers(edge); `copies` of an edge to another rank on a device, by
  /// buffer.
  Outbox(const Edge& edge, OpenConfiguration* configuration, tensor::Buffer memory,
         std::vector<std::unique_ptr<DeviceCopy>> copies);

  const Edge& edge() const { return edge_; }
  EdgeId id() const {
    return {.chunk = edge_.chunk, .direction = edge_.direction, .digest = digest_};
  }
  bool is_local() const { return edge_.is_local(); }
  bool is_on_device() const { return !copies_.empty(); }
  std::size_t buffer_bytes() const { return memory_.bytes() + to_.payloads.bytes(); }

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

  /// A buffer for the compute thread, in the receiver's slot if one is mapped and free. Null if no
  /// buffer is free.
  Buffer* take(const MessageKey& key);
  bool has_free() const;
  Buffer* find_taken(const MessageKey& key);
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

  /// Where the compute thread writes a buffer: the receiver's slot, or memory of this rank.
  std::byte* data_of(const Buffer& buffer) const;
  /// The copy that a leaving buffer needs first, to the receiver's slot or a payload; null: none.
  DeviceCopy* copy_of(const Buffer& buffer) const;
  /// What the buffer's payload leaves from.
  std::byte* payload_of(const Buffer& buffer) const;
  /// The receiver's slot as mapped here; null if it is not mapped.
  std::byte* mapped(int slot) const;
  std::uint64_t next_sequence() { return sequence_++; }
  tensor::Tensor view(std::byte* data) const { return {data, edge_.dtype, edge_.shape}; }

 private:
  /// Gives the slots that are free to the buffers in use that have none.
  void assign_slots();

  Edge edge_;
  std::uint64_t digest_ = 0;
  bool is_granted_ = false, is_open_ = false;
  SenderMemory to_;
  std::vector<std::unique_ptr<DeviceCopy>> copies_;
  /// The receiver's free slots; the last freed, still in cache, is used first.
  std::vector<int> credits_;
  tensor::Buffer memory_;
  std::vector<Buffer> buffers_;
  std::uint64_t order_ = 0;
  std::uint64_t sequence_ = 0;
};

}  // namespace troupe::transport
