#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/edges/edge_memory.h"
#include "transport/edges/link.h"

namespace troupe::transport {

struct OpenConfiguration;

/// The receiving end of an edge: its slots and what is in them. Every slot is in one state: granted
/// (the sender may fill it) -> arriving -> ready -> held (by the runner) -> owed (free, the sender
/// not yet told) -> granted; or kept, as an earlier configuration left it, until it is owed. Of a
/// staged edge, a message that has arrived is copied to the device before it is ready. Messages
/// name the slot they fill, so no message can exceed its credits unnoticed. Guarded by the link's
/// lock.
///
/// The inboxes of an end whose edges carry pieces of one tensor share the slots' memory, and each
/// slot has the pieces of one message. So every sender must use the slots in the same order: each
/// is granted them in the order in which they were freed, and takes the first.
class Inbox {
 public:
  struct Slot : IncomingTensor {
    enum class State : std::uint8_t { granted, arriving, ready, held, owed, kept };
    State state = State::granted;
    std::byte* read = nullptr;   ///< where the compute thread reads it: `data`, or on the device
    DeviceCopy* copy = nullptr;  ///< from `data` to `read`; null: they are one
    std::uint64_t step = 0;
    int microbatch = 0;
    std::uint64_t next_sequence = 0;  ///< a message with a smaller sequence is a duplicate
    OpenConfiguration* configuration = nullptr;
  };

  /// `kept`: all slots start as kept.
  Inbox(const Edge& edge, ReceiverMemory memory, OpenConfiguration* configuration, bool kept);

  const Edge& edge() const { return edge_; }
  EdgeId id() const {
    return {.chunk = edge_.chunk, .direction = edge_.direction, .digest = digest_};
  }
  int peer() const { return edge_.from; }
  bool is_local() const { return edge_.is_local(); }
  /// Whether messages are a piece of the tensor that is read.
  bool is_joined() const { return !edge_.received.is_whole(); }
  const ReceiverMemory& memory() const { return memory_; }
  /// The sender cannot map the slots on the device: stage() follows.
  void decline() { memory_.placement = EdgePlacement::staged; }
  /// From now on messages arrive in `memory`. Gives back what it has instead.
  ReceiverMemory stage(ReceiverMemory memory);
  /// Whether no message has used the slots.
  bool is_unused() const;

  /// Why a message from the right sender does not fit this edge, as expected and got; none if it
  /// fits.
  std::optional<std::string> misfit(const TensorMessage& message, std::size_t payload_bytes) const;
  bool is_duplicate(const TensorMessage& message) const;
  /// Why a message that fits another inbox of this end does not fit what has arrived here.
  std::optional<std::string> misfit_of_sibling(const TensorMessage& message) const;
  /// Marks the slot that a message names as arriving and returns it. The message fits and is no
  /// duplicate.
  Slot& admit(const TensorMessage& message);

  /// The slot of a message; null if no such message is ready or held.
  Slot* find(std::uint64_t step, int microbatch);
  void release(Slot& slot);
  bool is_kept() const { return slots_.front().state == Slot::State::kept; }
  void free_kept();
  /// Whether the sender has so few credits left that the slots owed to it should be granted without
  /// delay.
  bool sender_runs_short() const;
  /// Grants the slots that are owed, as many as fit into one message, of a joined inbox in the
  /// order in which they were freed. None if nothing is owed.
  std::optional<Credit> take_owed();
  /// The tensor that the compute thread reads, of which a slot has a piece.
  tensor::Tensor whole(const Slot& slot) const {
    return {slot.read - whole_.offset, edge_.dtype, whole_.shape};
  }

 private:
  void place_slots();
  std::uint16_t number_of(const Slot& slot) const {
    return static_cast<std::uint16_t>(&slot - slots_.data());
  }

  Edge edge_;
  std::uint64_t digest_ = 0;
  EndTensor whole_;
  ReceiverMemory memory_;
  std::vector<Slot> slots_;
  std::vector<std::uint16_t> owed_;  ///< of a joined inbox, in the order in which they were freed
};

/// "float32 [4, 256]".
std::string type_text(tensor::DType dtype, const tensor::Shape& shape);

}  // namespace troupe::transport
