#include "transport/edges/edge_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>

#include "tensor/errors/error.h"

namespace troupe::transport {
namespace {

/// Grants of future configurations that are kept: more than the ranks of any cluster send. Any more
/// are noise and refused.
constexpr std::size_t kMaxEarlyGrants = 1024;
/// How often a wait looks whether the device has failed. What a peer lacks may be what this rank
/// holds back for an event that is never reached.
constexpr std::chrono::seconds kDeviceCheck{1};

/// A work that has no name is of hosts, and asks no device.
NamedWork::Stage stage_of(const tensor::Work& work) {
  using Stage = NamedWork::Stage;
  if (const auto* const named = dynamic_cast<const NamedWork*>(&work)) return named->stage();
  return work.done() ? Stage::done : Stage::among_hosts;
}

bool is_at_device(const tensor::Work* work) {
  return work && stage_of(*work) == NamedWork::Stage::at_device;
}

void add_placement(std::vector<PeerPlacement>& all, int peer, EdgePlacement placement) {
  if (placement == EdgePlacement::host) return;
  const auto known = std::ranges::find(all, peer, &PeerPlacement::peer);
  if (known == all.end()) return all.push_back({.peer = peer, .placement = placement});
  if (placement == EdgePlacement::staged) known->placement = placement;
}

std::vector<PeerPlacement> placements_of(const OpenConfiguration& configuration) {
  std::vector<PeerPlacement> all;
  for (const Inbox& inbox : configuration.inboxes)
    add_placement(all, inbox.edge().from, inbox.memory().placement);
  for (const Outbox& box : configuration.outboxes)
    if (box.placement()) add_placement(all, box.edge().to, *box.placement());
  return all;
}

}  // namespace

std::size_t OpenConfiguration::buffer_bytes() const {
  std::size_t bytes = 0;
  std::set<const void*> counted;
  const auto add = [&](const auto& memory) {
    if (memory && counted.insert(memory.get()).second) bytes += memory->bytes();
  };
  for (const Inbox& inbox : inboxes) {
    add(inbox.memory().arrivals);
    add(inbox.memory().device);
  }
  for (const Outbox& box : outboxes) {
    add(box.memory());
    bytes += box.payload_bytes();
  }
  return bytes;
}

// --- calls of the compute thread

tensor::Tensor EdgeChannel::acquire(const MessageKey& key) {
  std::unique_lock<Link> lock(link_);
  check_open();
  const SendingEnd end = sending_end(key);
  auto buffer = end.take(key);
  if (!buffer) {
    wait_until(
        lock, [&] { return note_of({.message = std::nullopt, .buffer = key}); },
        [&] { return (buffer = end.take(key)).has_value(); });
  }
  return *buffer;
}

void EdgeChannel::send(const MessageKey& key, const tensor::Tensor& tensor) {
  std::unique_lock<Link> lock(link_);
  check_open();
  send_locked(key, tensor);
}

void EdgeChannel::send_locked(const MessageKey& key, const tensor::Tensor& tensor) {
  const SendingEnd end = sending_end(key);
  const bool queued = end.queue(key, tensor);
  TROUPE_ASSERT(queued);
  for (Outbox& box : end.boxes()) pump(box);
}

tensor::Tensor EdgeChannel::receive(const MessageKey& key) {
  std::unique_lock<Link> lock(link_);
  check_open();
  const ReceivingEnd end = receiving_end(key);
  Inbox::Slot* slot = end.find(key);
  if (!slot) {
    wait_until(
        lock, [&] { return note_of({.message = key, .buffer = std::nullopt}); },
        [&] { return (slot = end.find(key)) != nullptr; });
  }
  return end.hold(*slot, key);
}

bool EdgeChannel::ready(const Needs& needs) {
  if (needs.collective) static_cast<void>(needs.collective->done());  // may ask the device
  std::unique_lock<Link> lock(link_);
  check_open();
  return is_ready(needs);
}

void EdgeChannel::wait_for_either(const Needs& first, const Needs& second) {
  std::unique_lock<Link> lock(link_);
  check_open();
  const auto either = [&] { return is_ready(first) || is_ready(second); };
  if (!either())
    wait_until(lock, [&] { return note_of(first); }, either, {first.collective, second.collective});
}

bool EdgeChannel::is_ready(const Needs& needs) {
  const auto& [message, buffer, collective] = needs;
  return (!message || receiving_end(*message).find(*message)) &&
         (!buffer || sending_end(*buffer).has_free()) &&
         (!collective || stage_of(*collective) == NamedWork::Stage::done);
}

/// Describes the first of the needs that is missing.
WaitNote EdgeChannel::note_of(const Needs& needs) {
  const auto& [message, buffer, collective] = needs;
  if (const auto* named = dynamic_cast<const NamedWork*>(collective)) return named->note();
  if (message && (!buffer || !receiving_end(*message).find(*message)))
    return {.what = WaitNote::What::message,
            .key = *message,
            .peer = receiving_end(*message).missing(*message)};
  const Outbox& box = sending_end(*buffer).busy();
  const auto lack = box.has_queued() ? WaitNote::What::credit : WaitNote::What::send_buffer;
  return {.what = lack, .key = *buffer, .peer = box.edge().to};
}

void EdgeChannel::release(const MessageKey& key) {
  std::unique_lock<Link> lock(link_);
  check_open();
  release_locked(key);
}

void EdgeChannel::release_locked(const MessageKey& key) {
  const ReceivingEnd end = receiving_end(key);
  const Inbox::Slot& slot = end.release(key);
  if (end.front().is_local()) return recycle(end.front(), slot);
  for (Inbox& inbox : end.inboxes())
    if (inbox.sender_runs_short()) return_credits(inbox);
}

/// Frees the sender's buffer that a message of a local edge was in.
void EdgeChannel::recycle(Inbox& inbox, const Inbox::Slot& slot) {
  Outbox& box = *end_of(configuration_->outboxes, inbox.peer(), inbox.id());
  box.recycle_at(slot.data);
  const auto freed = inbox.take_owed();
  for (const std::uint16_t number : freed->slots) box.add_credit(number);
  pump(box);
}

std::shared_ptr<SlotMemory> EdgeChannel::keep(const MessageKey& key) {
  std::unique_lock<Link> lock(link_);
  check_open();
  return receiving_end(key).front().memory().arrivals;
}

void EdgeChannel::free_kept(const MessageKey& key) {
  std::unique_lock<Link> lock(link_);
  check_open();
  for (Inbox& inbox : receiving_end(key).inboxes()) {
    inbox.free_kept();
    return_credits(inbox);
  }
}

void EdgeChannel::flush() {
  settle();
  std::unique_lock<Link> lock(link_);
  check_open();
  for (const Outbox& box : configuration_->outboxes) {
    if (box.is_local()) continue;
    const WaitNote note{.what = WaitNote::What::departure, .peer = box.edge().to};
    wait_until(
        lock, [&note] { return note; }, [&box] { return box.is_empty(); });
  }
}

ChannelCounts EdgeChannel::counts() const {
  std::unique_lock<Link> lock(link_);
  ChannelCounts counts = counts_;
  for (const auto& closed : retired_) counts.buffer_bytes += closed->buffer_bytes();
  if (!configuration_) return counts;
  counts.buffer_bytes += configuration_->buffer_bytes();
  for (const Outbox& box : configuration_->outboxes)
    for (EdgeCount& count : counts.edges)
      if (count.to == box.edge().to) count.queued += box.num_queued();
  counts.placements = placements_of(*configuration_);
  return counts;
}

void EdgeChannel::close(const std::string& reason) {
  std::unique_lock<Link> lock(link_);
  fail(reason);
}

void EdgeChannel::check_open() const {
  if (!closed_.empty()) throw Error(ErrorKind::unavailable, "the channel is closed: " + closed_);
}

template <typename Name, typename Ready>
void EdgeChannel::wait_until(std::unique_lock<Link>& lock, Name name, Ready ready,
                             Collectives collectives) {
  if (ready()) return;
  // A thread that sleeps owes no credits: a peer may need the very slots whose return could wait
  // until now.
  return_all_credits();
  if (ready()) return;
  NamedWait wait(board_, name());
  struct Sleep {
    explicit Sleep(bool& flag) : sleeps(flag) { sleeps = true; }
    ~Sleep() { sleeps = false; }
    bool& sleeps;
  };
  const Sleep sleep(sleeps_);
  for (auto check = Clock::now() + kDeviceCheck;;) {
    if (const auto text = wait.overdue()) throw Error(ErrorKind::unavailable, *text);
    if (Clock::now() >= check || std::ranges::any_of(collectives, is_at_device)) {
      ask_device(lock, collectives);
      check = Clock::now() + kDeviceCheck;
    } else {
      link_.wait(lock, std::min(wait.deadline(), check));
    }
    check_open();
    if (device_edges_) device_edges_->work().throw_if_failed();
    if (ready()) return;
    wait.update(name());
  }
}

ReceivingEnd EdgeChannel::receiving_end(const MessageKey& key) {
  const auto inboxes = ends_of(configuration_->inboxes, key);
  TROUPE_ASSERT(!inboxes.empty());
  return ReceivingEnd(inboxes);
}

SendingEnd EdgeChannel::sending_end(const MessageKey& key) {
  const auto boxes = ends_of(configuration_->outboxes, key);
  TROUPE_ASSERT(!boxes.empty());
  return SendingEnd(boxes);
}

// --- configurations

bool EdgeChannel::is_current(const Header& header) const {
  return configuration_ && header.run == configuration_->spec.run &&
         header.configuration == configuration_->spec.configuration;
}

void EdgeChannel::hold_or_drop(const Header& header) {
  const bool may_come =
      !configuration_ || (header.run == configuration_->spec.run &&
                          header.configuration > configuration_->spec.configuration);
  if (!may_come || !std::holds_alternative<Grant>(header.body)) {
    ++counts_.dropped_old;
  } else {
    hold(header);
  }
}

void EdgeChannel::hold(const Header& header) {
  // A receiver has one open configuration: once it sends a newer grant, the memory of the older one
  // is gone.
  const EdgeId& edge = std::get<Grant>(header.body).edge;
  const auto is_of_end = [&](const Header& other) {
    const EdgeId& id = std::get<Grant>(other.body).edge;
    return other.sender == header.sender && id.chunk == edge.chunk &&
           id.direction == edge.direction;
  };
  std::erase_if(early_grants_, [&](const Header& other) {
    return is_of_end(other) &&
           (other.run != header.run || other.configuration < header.configuration);
  });
  const bool known = std::ranges::any_of(early_grants_, [&](const Header& other) {
    return is_of_end(other) && (other.configuration > header.configuration ||
                                std::get<Grant>(other.body).edge.digest == edge.digest);
  });
  if (known) return;
  if (early_grants_.size() < kMaxEarlyGrants) {
    early_grants_.push_back(header);
  } else {
    ++counts_.refused;
  }
}

bool EdgeChannel::transfer_ended(OpenConfiguration* configuration) {
  --configuration->in_flight;
  return configuration == configuration_.get();
}

void EdgeChannel::fail(const std::string& reason) {
  if (closed_.empty()) closed_ = reason;
  link_.notify();
}

void EdgeChannel::refuse(const std::string& text) {
  ++counts_.refused;
  fail("refused a message: " + text);
}

Header EdgeChannel::header_of(decltype(Header::body) body) const {
  return {.run = configuration_->spec.run,
          .configuration = configuration_->spec.configuration,
          .sender = configuration_->spec.rank,
          .body = std::move(body)};
}

// --- sending

void EdgeChannel::pump(Outbox& box) {
  while (Outbox::Buffer* next = box.next_to_send()) {
    for (EdgeCount& count : counts_.edges)
      if (count.to == box.edge().to && box.edge().direction != Direction::state)
        count.bytes += tensor_bytes(box.edge());
    box.is_local() ? hand_over(box, *next) : send_now(box, *next);
  }
}

void EdgeChannel::send_now(Outbox& box, Outbox::Buffer& buffer) {
  DeviceCopy* const copy = box.copy_of(buffer);
  if (!copy) {
    ++configuration_->in_flight;
    depart(box, buffer);
  } else if (closed_.empty()) {
    ++configuration_->in_flight;
    device_edges_->work().copy(*copy);  // on_copied() follows
  }
}

void EdgeChannel::depart(Outbox& box, Outbox::Buffer& buffer) {
  const std::size_t bytes = tensor_bytes(box.edge());
  TensorMessage message{.edge = box.id(),
                        .step = buffer.key.step,
                        .microbatch = buffer.key.microbatch,
                        .slot = buffer.slot,
                        .dtype = box.edge().dtype,
                        .shape = box.edge().shape,
                        .bytes = bytes,
                        .sequence = box.next_sequence(),
                        .credit = std::nullopt};
  if (std::byte* slot = box.mapped(buffer.slot)) {
    if (!buffer.in_slot && !buffer.copy) std::memcpy(slot, buffer.own, bytes);
    message.placement = Placement::written;
  }
  for (Inbox& inbox : configuration_->inboxes) {
    if (message.credit || inbox.peer() != box.peer() || inbox.is_local()) continue;
    // Credits of joined inboxes must arrive in order. Links keep that of headers, which a long
    // payload may be overtaken by.
    if (!inbox.is_joined()) message.credit = inbox.take_owed();
  }
  buffer.payload = box.payload_of(buffer);
  buffer.tensor_bytes = bytes;
  buffer.payload_bytes = message.placement == Placement::written ? 0 : bytes;
  buffer.header_bytes = encode(header_of(message), buffer.header);
  link_.send(box.edge().to, buffer);
}

void EdgeChannel::hand_over(Outbox& box, Outbox::Buffer& buffer) {
  Inbox& inbox = *end_of(configuration_->inboxes, box.peer(), box.id());
  Inbox::Slot& slot = inbox.admit({.edge = box.id(),
                                   .step = buffer.key.step,
                                   .microbatch = buffer.key.microbatch,
                                   .slot = buffer.slot,
                                   .sequence = box.next_sequence(),
                                   .credit = std::nullopt});
  slot.data = slot.read = buffer.own;
  slot.state = Inbox::Slot::State::ready;
}

void EdgeChannel::return_all_credits() {
  for (Inbox& inbox : configuration_->inboxes)
    if (!inbox.is_local()) return_credits(inbox);
}

void EdgeChannel::return_credits(Inbox& inbox) {
  while (const auto credit = inbox.take_owed())
    link_.send_control(inbox.edge().from, header_of(*credit));
}

}  // namespace troupe::transport
