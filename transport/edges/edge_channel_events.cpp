#include <fmt/format.h>

#include <algorithm>

#include "transport/edges/edge_channel.h"

// The events that a link or a device reports to its channel.

namespace troupe::transport {

// --- events of the device

void EdgeChannel::send(const MessageKey& key, const tensor::Tensor& buffer,
                       tensor::Event& written) {
  const bool is_written = written.done();
  {
    const std::unique_lock<Link> lock(link_);
    check_open();
    if (is_written || sending_end(key).front().is_local()) return send_locked(key, buffer);
  }
  hand_over_later(key, buffer, written);
}

void EdgeChannel::release(const MessageKey& key, tensor::Event& read) {
  if (read.done()) return release(key);
  hand_over_later(key, {}, read);
}

void EdgeChannel::hand_over_later(const MessageKey& key, const tensor::Tensor& buffer,
                                  tensor::Event& event) {
  HandOver* hand_over = nullptr;
  {
    const std::unique_lock<Link> lock(link_);
    check_open();
    if (configuration_->idle.empty())
      configuration_->idle.push_back(&configuration_->hand_overs.emplace_back());
    hand_over = configuration_->idle.back();
    configuration_->idle.pop_back();
    *hand_over = {.channel = this,
                  .configuration = configuration_.get(),
                  .key = key,
                  .buffer = buffer,
                  .event = &event};
    ++configuration_->in_flight;
  }
  waiting_for_events_.fetch_add(1);
  event.on_reached(&EdgeChannel::on_event, hand_over);
}

/// Called by a thread of the device, or by hand_over_later().
void EdgeChannel::on_event(void* argument) {
  const HandOver hand_over = *static_cast<HandOver*>(argument);
  EdgeChannel& channel = *hand_over.channel;
  {
    const std::unique_lock<Link> lock(channel.link_);
    static_cast<HandOver*>(argument)->event = nullptr;
    hand_over.configuration->idle.push_back(static_cast<HandOver*>(argument));
    if (channel.transfer_ended(hand_over.configuration) && channel.closed_.empty()) {
      hand_over.buffer ? channel.send_locked(hand_over.key, hand_over.buffer)
                       : channel.release_locked(hand_over.key);
      // A peer may need the very slots that this has freed, as when the thread went to sleep.
      if (channel.sleeps_) channel.return_all_credits();
      channel.link_.notify();  // a local edge's buffer may be free, or its message there
    }
  }
  channel.waiting_for_events_.fetch_sub(1);
  channel.waiting_for_events_.notify_all();
}

/// Lets go of the lock meanwhile: an answer may have to wait for the device, and the device for a
/// thread of its own that wants the lock. Throws if the device has failed: events are then never
/// reached, but say so.
void EdgeChannel::ask_device(std::unique_lock<Link>& lock, const Collectives& collectives) {
  asked_.clear();
  for (const HandOver& hand_over : configuration_->hand_overs)
    if (hand_over.event) asked_.push_back(hand_over.event);
  lock.unlock();
  for (const tensor::Event* const event : asked_) static_cast<void>(event->done());
  for (const tensor::Work* const work : collectives)
    if (work) static_cast<void>(work->done());
  lock.lock();
}

void EdgeChannel::settle() {
  for (int waiting = 0; (waiting = waiting_for_events_.load()) != 0;)
    waiting_for_events_.wait(waiting);
  if (device_edges_) device_edges_->work().drain();
}

// --- events of the link

IncomingTensor* EdgeChannel::on_message(const Header& header, std::size_t payload_bytes) {
  if (!is_current(header)) {
    hold_or_drop(header);
  } else if (const auto* message = std::get_if<TensorMessage>(&header.body)) {
    return on_tensor(header.sender, *message, payload_bytes);
  } else if (const auto* credit = std::get_if<Credit>(&header.body)) {
    on_credit(header.sender, *credit);
  } else if (const auto* grant = std::get_if<Grant>(&header.body)) {
    on_grant(header.sender, *grant);
  } else if (const auto* decline = std::get_if<Decline>(&header.body)) {
    on_decline(header.sender, *decline);
  }
  return nullptr;
}

void EdgeChannel::on_unreadable(std::size_t header_bytes) {
  refuse(fmt::format("its header of {} bytes is damaged or of another program", header_bytes));
}

IncomingTensor* EdgeChannel::on_tensor(int sender, const TensorMessage& message,
                                       std::size_t payload_bytes) {
  if (message.credit) on_credit(sender, *message.credit);
  Inbox* const found = end_of(configuration_->inboxes, sender, message.edge);
  if (!found) {
    refuse(fmt::format("rank {} sent {}, expected no such message from it", board_.rank_of(sender),
                       to_string(message.key())));
    return nullptr;
  }
  const ReceivingEnd end(ends_of(configuration_->inboxes, message.edge));
  if (const auto misfit = end.misfit(*found, message, payload_bytes)) {
    refuse(fmt::format("{} from rank {} on {}: {}", to_string(message.key()),
                       board_.rank_of(sender), name_of(found->edge()), *misfit));
    return nullptr;
  }
  if (found->is_duplicate(message)) {
    ++counts_.dropped_duplicate;
    return nullptr;
  }
  Inbox::Slot& slot = found->admit(message);
  ++configuration_->in_flight;
  if (message.placement == Placement::payload) return &slot;
  on_payload(slot);
  return nullptr;
}

void EdgeChannel::on_payload(IncomingTensor& tensor) {
  auto& slot = static_cast<Inbox::Slot&>(tensor);
  const bool is_current = slot.configuration == configuration_.get();
  if (!slot.copy || !is_current || !closed_.empty()) return arrive(slot);
  device_edges_->work().copy(*slot.copy);  // on_copied() follows
}

void EdgeChannel::arrive(Inbox::Slot& slot) {
  slot.state = Inbox::Slot::State::ready;
  if (transfer_ended(slot.configuration)) link_.notify();
}

void EdgeChannel::on_payload_lost(IncomingTensor& tensor) {
  // on_peer_lost() gives the reason. Until then the slot stays taken, and a compute thread that
  // waits for the message goes on waiting.
  transfer_ended(static_cast<Inbox::Slot&>(tensor).configuration);
}

void EdgeChannel::on_grant(int sender, const Grant& grant) {
  Outbox* box = outbox_to(sender, grant.edge);
  if (!box) return;
  const Edge& edge = box->edge();
  if (grant.edge.digest != box->id().digest) {
    const std::string expected = type_text(edge.dtype, edge.shape);
    const std::string got = type_text(grant.dtype, grant.shape);
    const bool alike = grant.slots == edge.slots && got == expected;
    return refuse(fmt::format("grant from rank {} on {}: expected {} slots of {}, got {} of {}{}",
                              board_.rank_of(sender), name_of(edge), edge.slots, expected,
                              grant.slots, got, alike ? ", which are other rows" : ""));
  }
  if (!box->admit_grant())
    return refuse(fmt::format("a second grant from rank {} on {}", board_.rank_of(sender),
                              name_of(box->edge())));
  if (box->is_on_device()) return map_slots_of(*box, sender, grant);
  if (grant.on_device) {  // a CPU writes into no device's memory
    box->decline();
    return link_.send_control(edge.to, header_of(Decline{.edge = box->id()}));
  }
  box->open({.mapped = link_.map(sender, grant.segment, slots_bytes(edge))}, grant.kept);
  pump(*box);
}

void EdgeChannel::on_credit(int sender, const Credit& credit) {
  Outbox* box = outbox_to(sender, credit.edge);
  if (!box) return;
  for (const std::uint16_t slot : credit.slots) {
    if (!box->add_credit(slot)) {
      return refuse(fmt::format("credit from rank {} on {}: slot {} is not in use",
                                board_.rank_of(sender), name_of(box->edge()), slot));
    }
  }
  pump(*box);
}

Outbox* EdgeChannel::outbox_to(int receiver, const EdgeId& edge) {
  Outbox* const found = end_of(configuration_->outboxes, receiver, edge);
  if (found) return found;
  refuse(fmt::format("rank {} grants slots of chunk {}, expected no such message from it",
                     board_.rank_of(receiver), edge.chunk));
  return nullptr;
}

std::string EdgeChannel::name_of(Edge edge) const {
  edge.from = board_.rank_of(edge.from);
  edge.to = board_.rank_of(edge.to);
  return to_string(edge);
}

void EdgeChannel::on_departed(OutgoingTensor& tensor) {
  auto& buffer = static_cast<Outbox::Buffer&>(tensor);
  buffer.box->recycle(buffer);
  if (transfer_ended(buffer.configuration)) link_.notify();
}

void EdgeChannel::on_peer_lost(int rank, const std::string& why) {
  if (!configuration_) return;
  const bool is_neighbour = std::ranges::any_of(
      configuration_->spec.edges,
      [rank](const Edge& edge) { return edge.from == rank || edge.to == rank; });
  if (is_neighbour)
    fail(fmt::format("the connection to rank {} is lost: {}", board_.rank_of(rank), why));
}

}  // namespace troupe::transport
