#include "transport/edges/inbox.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/errors/error.h"

namespace troupe::transport {

namespace {

/// Whether a slot has a message, or gets one.
bool has_message(const Inbox::Slot& slot) {
  return slot.state == Inbox::Slot::State::arriving || slot.state == Inbox::Slot::State::ready ||
         slot.state == Inbox::Slot::State::held;
}

}  // namespace

std::string type_text(tensor::DType dtype, const tensor::Shape& shape) {
  return fmt::format("{} {}", tensor::name_of(dtype), tensor::to_string(shape));
}

Inbox::Inbox(const Edge& edge, ReceiverMemory memory, OpenConfiguration* configuration, bool kept)
    : edge_(edge),
      digest_(digest(edge)),
      whole_(received_tensor(edge)),
      memory_(std::move(memory)),
      slots_(static_cast<std::size_t>(edge.slots)) {
  for (Slot& slot : slots_) {
    slot.configuration = configuration;
    if (kept) slot.state = Slot::State::kept;
  }
  if (is_joined()) owed_.reserve(slots_.size());
  place_slots();
}

void Inbox::place_slots() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    const std::size_t offset = i * whole_.stride + whole_.offset;
    if (memory_.arrivals) slot.data = slot.read = memory_.arrivals->data() + offset;
    if (memory_.device) slot.read = memory_.device->data() + offset;
    if (memory_.copies.empty()) continue;
    slot.copy = memory_.copies[i].get();
    slot.copy->from = {slot.data, edge_.dtype, edge_.shape};
    slot.copy->to = {slot.read, edge_.dtype, edge_.shape};
    slot.copy->owner = &slot;
  }
}

ReceiverMemory Inbox::stage(ReceiverMemory memory) {
  std::swap(memory_, memory);
  place_slots();
  return memory;
}

bool Inbox::is_unused() const {
  return std::ranges::all_of(slots_, [](const Slot& slot) {
    return slot.state == Slot::State::granted && slot.next_sequence == 0;
  });
}

std::optional<std::string> Inbox::misfit(const TensorMessage& message,
                                         std::size_t payload_bytes) const {
  if (message.dtype != edge_.dtype || message.shape != edge_.shape)
    return fmt::format("expected {}, got {}", type_text(edge_.dtype, edge_.shape),
                       type_text(message.dtype, message.shape));
  const std::size_t bytes = tensor_bytes(edge_);
  if (message.bytes != bytes) return fmt::format("expected {} bytes, got {}", bytes, message.bytes);
  if (message.placement == Placement::payload && !memory_.arrivals)
    return "expected a message that is written into its slot on the device, got a payload";
  const std::size_t payload = message.placement == Placement::payload ? bytes : 0;
  if (payload_bytes != payload)
    return fmt::format("expected a payload of {} bytes, got {}", payload, payload_bytes);
  if (message.edge.digest != digest_)
    return fmt::format(
        "expected the edge's digest {:016x}, got {:016x}: the two ranks describe "
        "the edge differently",
        digest_, message.edge.digest);
  if (message.slot >= edge_.slots)
    return fmt::format("expected a slot below {}, got {}", edge_.slots, message.slot);
  if (is_duplicate(message)) return std::nullopt;
  if (slots_[static_cast<std::size_t>(message.slot)].state != Slot::State::granted)
    return fmt::format("expected a slot that was granted, got slot {}, which is not free",
                       message.slot);
  const bool known = std::ranges::any_of(slots_, [&message](const Slot& slot) {
    return has_message(slot) && slot.step == message.step && slot.microbatch == message.microbatch;
  });
  if (known) return fmt::format("expected one {}, got a second", to_string(message.key()));
  return std::nullopt;
}

bool Inbox::is_duplicate(const TensorMessage& message) const {
  return message.sequence < slots_[static_cast<std::size_t>(message.slot)].next_sequence;
}

std::optional<std::string> Inbox::misfit_of_sibling(const TensorMessage& message) const {
  for (const Slot& slot : slots_) {
    if (!has_message(slot)) continue;
    const bool is_same = slot.step == message.step && slot.microbatch == message.microbatch;
    if (is_same && number_of(slot) != message.slot)
      return fmt::format("expected slot {}, which has its other pieces, got {}", number_of(slot),
                         message.slot);
    if (is_same || number_of(slot) != message.slot) continue;
    MessageKey other = message.key();
    other.step = slot.step;
    other.microbatch = slot.microbatch;
    return fmt::format("expected a piece of {}, of which slot {} has another one", to_string(other),
                       message.slot);
  }
  return std::nullopt;
}

Inbox::Slot& Inbox::admit(const TensorMessage& message) {
  Slot& slot = slots_[static_cast<std::size_t>(message.slot)];
  TROUPE_ASSERT(slot.state == Slot::State::granted);
  slot.state = Slot::State::arriving;
  slot.step = message.step;
  slot.microbatch = message.microbatch;
  slot.next_sequence = message.sequence + 1;
  return slot;
}

Inbox::Slot* Inbox::find(std::uint64_t step, int microbatch) {
  const auto found = std::ranges::find_if(slots_, [&](const Slot& slot) {
    return (slot.state == Slot::State::ready || slot.state == Slot::State::held) &&
           slot.step == step && slot.microbatch == microbatch;
  });
  return found == slots_.end() ? nullptr : &*found;
}

void Inbox::release(Slot& slot) {
  slot.state = Slot::State::owed;
  if (is_joined()) owed_.push_back(number_of(slot));
}

void Inbox::free_kept() {
  for (Slot& slot : slots_)
    if (slot.state == Slot::State::kept) release(slot);
}

bool Inbox::sender_runs_short() const {
  const auto granted = std::ranges::count(slots_, Slot::State::granted, &Slot::state);
  return 2 * granted <= std::ssize(slots_);
}

std::optional<Credit> Inbox::take_owed() {
  Credit credit{.edge = id(), .slots = {}};
  const auto grant = [&](Slot& slot) {
    if (slot.state != Slot::State::owed || credit.slots.size() == credit.slots.capacity()) return;
    credit.slots.push_back(number_of(slot));
    slot.state = Slot::State::granted;
  };
  if (is_joined()) {
    for (const std::uint16_t number : owed_) grant(slots_[number]);
    owed_.erase(owed_.begin(), owed_.begin() + static_cast<std::ptrdiff_t>(credit.slots.size()));
  } else {
    for (Slot& slot : slots_) grant(slot);
  }
  if (credit.slots.empty()) return std::nullopt;
  return credit;
}

}  // namespace troupe::transport
