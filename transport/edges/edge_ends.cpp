#include "transport/edges/edge_ends.h"

#include "tensor/errors/error.h"

namespace troupe::transport {

int sender_here(Link& link, std::span<const Edge> pieces) {
  const auto is_here = [&link](const Edge& edge) { return link.shares_memory_with(edge.from); };
  const auto found = std::ranges::find_if(pieces, is_here);
  return found == pieces.end() ? pieces.front().from : found->from;
}

Inbox::Slot* ReceivingEnd::find(const MessageKey& key) const {
  Inbox::Slot* const found = front().find(key.step, key.microbatch);
  for (Inbox& other : inboxes_.subspan(1))
    if (!found || !other.find(key.step, key.microbatch)) return nullptr;
  return found;
}

tensor::Tensor ReceivingEnd::hold(Inbox::Slot& found, const MessageKey& key) const {
  found.state = Inbox::Slot::State::held;
  for (Inbox& other : inboxes_.subspan(1))
    other.find(key.step, key.microbatch)->state = Inbox::Slot::State::held;
  return front().whole(found);
}

Inbox::Slot& ReceivingEnd::release(const MessageKey& key) const {
  Inbox::Slot* first = nullptr;
  for (Inbox& inbox : inboxes_) {
    Inbox::Slot* const slot = inbox.find(key.step, key.microbatch);
    TROUPE_ASSERT(slot && slot->state == Inbox::Slot::State::held);
    inbox.release(*slot);
    if (!first) first = slot;
  }
  return *first;
}

int ReceivingEnd::missing(const MessageKey& key) const {
  const auto lacks = [&key](Inbox& inbox) { return !inbox.find(key.step, key.microbatch); };
  const auto found = std::ranges::find_if(inboxes_, lacks);
  return found == inboxes_.end() ? front().peer() : found->peer();
}

std::optional<std::string> ReceivingEnd::misfit(const Inbox& inbox, const TensorMessage& message,
                                                std::size_t payload_bytes) const {
  if (auto misfit = inbox.misfit(message, payload_bytes)) return misfit;
  if (inboxes_.size() == 1 || inbox.is_duplicate(message)) return std::nullopt;
  for (const Inbox& other : inboxes_) {
    if (&other == &inbox) continue;
    if (auto misfit = other.misfit_of_sibling(message)) return misfit;
  }
  return std::nullopt;
}

std::optional<std::size_t> SendingEnd::free_number() const {
  for (std::size_t number = 0; number < front().buffers().size(); ++number)
    if (std::ranges::all_of(boxes_, [&](const Outbox& box) { return box.is_free(number); }))
      return number;
  return std::nullopt;
}

std::optional<tensor::Tensor> SendingEnd::take(const MessageKey& key) const {
  const auto number = free_number();
  if (!number) return std::nullopt;
  for (Outbox& box : boxes_) box.take(*number, key);
  return front().whole(front().buffers()[*number]);
}

bool SendingEnd::queue(const MessageKey& key, const tensor::Tensor& tensor) const {
  using State = Outbox::Buffer::State;
  const auto all = front().buffers();
  const auto taken = std::ranges::find_if(all, [&key](const Outbox::Buffer& buffer) {
    return buffer.state == State::taken && buffer.key == key;
  });
  if (taken == all.end() || tensor.data != front().whole(*taken).data) return false;
  const auto number = static_cast<std::size_t>(taken - all.begin());
  for (Outbox& box : boxes_) box.queue(box.buffers()[number]);
  return true;
}

const Outbox& SendingEnd::busy() const {
  const auto waiting = std::ranges::find_if(boxes_, &Outbox::has_queued);
  if (waiting != boxes_.end()) return *waiting;
  const auto used = std::ranges::find_if(boxes_, [](const Outbox& box) {
    return std::ranges::any_of(box.buffers(), [](const Outbox::Buffer& buffer) {
      return buffer.state != Outbox::Buffer::State::free;
    });
  });
  return used == boxes_.end() ? front() : *used;
}

}  // namespace troupe::transport
