#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/edges/inbox.h"
#include "transport/edges/outbox.h"

// A rank computes with whole tensors. Where they are received or sent in pieces, the inboxes or
// outboxes of the pieces' edges stand beside each other, and these views make one end of them.

namespace troupe::transport {

/// Finds the ends of a (chunk, direction), which a message's key names: one, or those of all
/// pieces; or none.
template <typename End, typename Name>
std::span<End> ends_of(std::vector<End>& ends, const Name& name) {
  const auto is_named = [&name](const End& end) {
    return end.edge().chunk == name.chunk && end.edge().direction == name.direction;
  };
  const auto first = std::ranges::find_if(ends, is_named);
  return {first, std::find_if_not(first, ends.end(), is_named)};
}

/// The end of the edge to or from `peer` that an id names. If none has the id's digest, one of that
/// (chunk, direction), which the peer describes differently; null if there is none.
template <typename End>
End* end_of(std::vector<End>& ends, int peer, const EdgeId& id) {
  End* similar = nullptr;
  for (End& end : ends) {
    const EdgeId own = end.id();
    if (end.peer() != peer || own.chunk != id.chunk || own.direction != id.direction) continue;
    if (own.digest == id.digest) return &end;
    if (!similar) similar = &end;
  }
  return similar;
}

/// One of the senders to an end, on this host if any is: it can map memory that is made for it.
int sender_here(Link& link, std::span<const Edge> pieces);

/// The end at which the tensors of a (chunk, direction) are received. Guarded by the link's lock.
class ReceivingEnd {
 public:
  /// `inboxes` of one end.
  explicit ReceivingEnd(std::span<Inbox> inboxes) : inboxes_(inboxes) {}

  Inbox& front() const { return inboxes_.front(); }
  std::span<Inbox> inboxes() const { return inboxes_; }
  /// The first inbox's slot of a tensor of which all pieces are ready or held; null if there is
  /// none.
  Inbox::Slot* find(const MessageKey& key) const;
  /// Gives the tensor that find() has found to the compute thread.
  tensor::Tensor hold(Inbox::Slot& found, const MessageKey& key) const;
  /// Frees the slots of a tensor that the compute thread holds. Returns the first inbox's. No
  /// credit may go back before this: its message would find a piece of the tensor before in another
  /// inbox.
  Inbox::Slot& release(const MessageKey& key) const;
  /// A sender whose piece of the tensor is not here.
  int missing(const MessageKey& key) const;
  /// Why a message into one of the inboxes does not fit; none if it fits, or has been here before.
  std::optional<std::string> misfit(const Inbox& inbox, const TensorMessage& message,
                                    std::size_t payload_bytes) const;

 private:
  std::span<Inbox> inboxes_;
};

/// The end at which the tensors of a (chunk, direction) are sent. Guarded by the link's lock.
class SendingEnd {
 public:
  /// `boxes` of one end.
  explicit SendingEnd(std::span<Outbox> boxes) : boxes_(boxes) {}

  Outbox& front() const { return boxes_.front(); }
  std::span<Outbox> boxes() const { return boxes_; }
  bool has_free() const { return free_number().has_value(); }
  /// Takes a buffer that all pieces have left; none if there is none.
  std::optional<tensor::Tensor> take(const MessageKey& key) const;
  /// Queues all pieces of the buffer that was taken for `key`, which the compute thread has
  /// written. Returns false if `tensor` is not that buffer.
  bool queue(const MessageKey& key, const tensor::Tensor& tensor) const;
  /// An outbox that keeps a buffer from being free: one that waits for a credit, if there is one.
  const Outbox& busy() const;

 private:
  std::optional<std::size_t> free_number() const;

  std::span<Outbox> boxes_;
};

}  // namespace troupe::transport
