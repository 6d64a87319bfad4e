#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/edges/link.h"

namespace troupe::transport {

struct OpenConfiguration;

/// The receiving end of an edge: its slots and what is in them. Every slot is in one state: granted
/// (the sender may fill it) -> arriving -> ready -> held (by the runner) -> owed (free, the sender
/// not yet told) -> granted; or kept, as an earlier configuration left it, until it is owed.
/// Messages name the slot they fill, so no message can exceed its credits unnoticed. Guarded by the
/// link's lock.
class Inbox {
 public:
  struct Slot : IncomingTensor {
    enum class State : std::uint8_t { granted, arriving, ready, held, owed, kept };
    State state = State::granted;
    std::uint64_t step = 0;
    int microbatch = 0;
    std::uint64_t next_sequence = 0;  ///< a message with a smaller sequence is a duplicate
    OpenConfiguration* configuration = nullptr;
  };

  /// `memory` is null for an edge from a rank to itself, whose messages stay in the sender's
  /// buffers. `kept`: all slots start as kept.
  Inbox(const Edge& edge, std::shared_ptr<SlotMemory> memory, OpenConfiguration* configuration,
        bool kept);

  const Edge& edge() const { return edge_; }
  EdgeId id() const {
    return {.chunk = edge_.chunk, .direction = edge_.direction, .digest = digest_};
  }
  const std::shared_ptr<SlotMemory>& memory() const { return memory_; }

  /// Why a message from the right sender does not fit this edge, as expected and got; none if it
  /// fits.
  std::optional<std::string> misfit(const TensorMessage& message, std::size_t payload_bytes) const;
  bool is_duplicate(const TensorMessage& message) const;
  /// Marks the slot that a message names as arriving and returns it. The message fits and is no
  /// duplicate.
  Slot& admit(const TensorMessage& message);

  /// The slot of a message; null if no such message is ready or held.
  Slot* find(std::uint64_t step, int microbatch);
  void release(Slot& slot) { slot.state = Slot::State::owed; }
  bool is_kept() const { return slots_.front().state == Slot::State::kept; }
  void free_kept();
  /// Whether the sender has so few credits left that the slots owed to it should be granted without
  /// delay.
  bool sender_runs_short() const;
  /// Grants the slots that are owed, as many as fit into one message. None if nothing is owed.
  std::optional<Credit> take_owed();
  tensor::Tensor view(const Slot& slot) const { return {slot.data, edge_.dtype, edge_.shape}; }

 private:
  Edge edge_;
  std::uint64_t digest_ = 0;
  std::shared_ptr<SlotMemory> memory_;
  std::vector<Slot> slots_;
};

/// "float32 [4, 256]".
std::string type_text(tensor::DType dtype, const tensor::Shape& shape);

}  // namespace troupe::transport
