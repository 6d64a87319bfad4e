#include "transport/edges/outbox.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tensor/errors/error.h"
#include "transport/edges/inbox.h"

namespace troupe::transport {

Outbox::Outbox(const Edge& edge, OpenConfiguration* configuration,
               std::shared_ptr<tensor::Buffer> memory,
               std::vector<std::unique_ptr<DeviceCopy>> copies, bool shares)
    : edge_(edge),
      digest_(digest(edge)),
      whole_(sent_tensor(edge)),
      received_(received_tensor(edge)),
      shares_(shares || !edge.sent.is_whole()),
      copies_(std::move(copies)),
      memory_(std::move(memory)),
      buffers_(num_send_buffers(edge)) {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    Buffer& buffer = buffers_[i];
    buffer.own = static_cast<std::byte*>(memory_->data()) + i * whole_.stride + whole_.offset;
    buffer.box = this;
    buffer.configuration = configuration;
    if (copies_.empty()) continue;
    buffer.copy = copies_[i].get();
    buffer.copy->owner = &buffer;
  }
  credits_.reserve(static_cast<std::size_t>(edge.slots));
  const bool on_device = memory_->kind() == tensor::MemoryKind::device;
  if (is_local())
    open({.placement = on_device ? EdgePlacement::local : EdgePlacement::host, .mapped = nullptr});
}

void Outbox::open(SenderMemory to, bool kept) {
  is_open_ = true;
  to_ = std::move(to);
  fills_slots_ = to_.mapped && to_.placement != EdgePlacement::staged && !shares_;
  if (kept) return;
  credits_.resize(static_cast<std::size_t>(edge_.slots));
  std::iota(credits_.begin(), credits_.end(), 0);
  if (!edge_.received.is_whole()) std::ranges::reverse(credits_);
  assign_slots();
}

std::optional<EdgePlacement> Outbox::placement() const {
  return is_open_ ? std::optional(to_.placement) : std::nullopt;
}

bool Outbox::add_credit(int slot) {
  const bool waits = std::ranges::any_of(buffers_, [slot](const Buffer& buffer) {
    return buffer.slot == slot && buffer.state != Buffer::State::leaving;
  });
  if (slot >= edge_.slots || waits || std::ranges::find(credits_, slot) != credits_.end())
    return false;
  credits_.insert(edge_.received.is_whole() ? credits_.end() : credits_.begin(), slot);
  assign_slots();
  return true;
}

void Outbox::assign_slots() {
  while (!credits_.empty()) {
    Buffer* oldest = nullptr;
    for (Buffer& buffer : buffers_) {
      const bool lacks_slot = buffer.state != Buffer::State::free && buffer.slot == kNoSlot;
      if (lacks_slot && (!oldest || buffer.order < oldest->order)) oldest = &buffer;
    }
    if (!oldest) return;
    oldest->slot = credits_.back();
    credits_.pop_back();
  }
}

Outbox::Buffer& Outbox::take(std::size_t number, const MessageKey& key) {
  Buffer& buffer = buffers_[number];
  buffer.state = Buffer::State::taken;
  buffer.key = key;
  buffer.order = order_++;
  assign_slots();
  buffer.in_slot = fills_slots_ && buffer.slot != kNoSlot;
  return buffer;
}

void Outbox::queue(Buffer& buffer) {
  buffer.state = Buffer::State::queued;
}

int Outbox::num_queued() const {
  return static_cast<int>(std::ranges::count(buffers_, Buffer::State::queued, &Buffer::state));
}

bool Outbox::is_empty() const {
  return std::ranges::none_of(buffers_, [](const Buffer& buffer) {
    return buffer.state == Buffer::State::queued || buffer.state == Buffer::State::leaving;
  });
}

Outbox::Buffer* Outbox::next_to_send() {
  Buffer* oldest = nullptr;
  for (Buffer& buffer : buffers_) {
    const bool can_leave = buffer.state == Buffer::State::queued && buffer.slot != kNoSlot;
    if (can_leave && (!oldest || buffer.order < oldest->order)) oldest = &buffer;
  }
  if (oldest) oldest->state = Buffer::State::leaving;
  return oldest;
}

void Outbox::recycle(Buffer& buffer) {
  buffer.state = Buffer::State::free;
  buffer.slot = kNoSlot;
  buffer.in_slot = false;
}

void Outbox::recycle_at(const std::byte* own) {
  const auto found = std::ranges::find(buffers_, own, &Buffer::own);
  TROUPE_ASSERT(found != buffers_.end());
  recycle(*found);
}

DeviceCopy* Outbox::copy_of(const Buffer& buffer) const {
  if (!buffer.copy || buffer.in_slot) return nullptr;
  std::byte* const slot = mapped(buffer.slot);
  buffer.copy->from = view(buffer.own);
  buffer.copy->to = view(slot ? slot : payload_of(buffer));
  return buffer.copy;
}

std::byte* Outbox::payload_of(const Buffer& buffer) const {
  if (!buffer.copy) return buffer.own;
  if (!to_.payloads.data()) return nullptr;
  const std::ptrdiff_t number = &buffer - buffers_.data();
  return static_cast<std::byte*>(to_.payloads.data()) +
         static_cast<std::size_t>(number) * payload_stride(edge_);
}

std::byte* Outbox::mapped(int slot) const {
  if (!to_.mapped) return nullptr;
  return to_.mapped->data() + static_cast<std::size_t>(slot) * received_.stride + received_.offset;
}

}  // namespace troupe::transport
