#include "transport/ucx/ucx_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tensor/error.h"
#include "transport/ucx/ucx_transfer.h"

namespace troupe::transport {
namespace {

/// Requests kept from members that are ahead of this one.
constexpr std::size_t kMaxRequests = 4096;
/// How long an aborted collective waits for members to let go of its memory. Members that are alive
/// do so at once, or have closed their end already. Anything else that a member may write into the
/// memory arrives before that member leaves the epoch, and so before the memory is used again.
constexpr std::chrono::milliseconds kDrainLimit{250};

}  // namespace

UcxGroup::UcxGroup(GroupHub& hub, const GroupKey& key, const std::string& name,
                   std::vector<int> ranks, int this_rank)
    : hub_(hub), key_(key), name_(name), ranks_(std::move(ranks)), member_(member_of(this_rank)) {
  TROUPE_ASSERT(member_ >= 0);
  const std::lock_guard lock(hub_.worker());
  hub_.add(*this);
}

UcxGroup::~UcxGroup() {
  const std::lock_guard lock(hub_.worker());
  TROUPE_ASSERT(active_.empty());
  hub_.remove(*this);
}

// --- the collectives

std::unique_ptr<tensor::Work> UcxGroup::all_reduce(const tensor::Tensor& x) {
  TROUPE_ASSERT(x.dtype == tensor::DType::f32 || x.dtype == tensor::DType::f64);
  return start({.operation = Operation::all_reduce, .in = x, .out = x});
}

std::unique_ptr<tensor::Work> UcxGroup::all_gather(const tensor::Tensor& in,
                                                   const tensor::Tensor& out) {
  TROUPE_ASSERT(out.num_bytes() == in.num_bytes() * ranks_.size());
  return start({.operation = Operation::all_gather, .in = in, .out = out});
}

std::unique_ptr<tensor::Work> UcxGroup::reduce_scatter(const tensor::Tensor& in,
                                                       const tensor::Tensor& out) {
  TROUPE_ASSERT(in.dtype == tensor::DType::f32 || in.dtype == tensor::DType::f64);
  TROUPE_ASSERT(in.dtype == out.dtype && in.num_bytes() == out.num_bytes() * ranks_.size());
  return start({.operation = Operation::reduce_scatter, .in = in, .out = out});
}

std::unique_ptr<tensor::Work> UcxGroup::all_to_all(const tensor::Tensor& in,
                                                   const tensor::Tensor& out) {
  TROUPE_ASSERT(in.num_bytes() == out.num_bytes() && in.num_bytes() % ranks_.size() == 0);
  return start({.operation = Operation::all_to_all, .in = in, .out = out});
}

std::unique_ptr<tensor::Work> UcxGroup::broadcast(const tensor::Tensor& x, int root) {
  TROUPE_ASSERT(root >= 0 && root < size());
  return start({.operation = Operation::broadcast, .in = x, .out = x, .root = root});
}

std::unique_ptr<tensor::Work> UcxGroup::start(const Collective::Call& call) {
  const std::lock_guard lock(hub_.worker());
  if (idle_.empty()) {
    collectives_.emplace_back(new Collective(*this));
    idle_.push_back(collectives_.back().get());
  }
  Collective* collective = idle_.back();
  idle_.pop_back();
  active_.push_back(collective);
  collective->start(call, next_sequence_++);
  return std::unique_ptr<tensor::Work>(collective);
}

bool UcxGroup::poll(const Collective& collective) {
  std::unique_lock lock(hub_.worker());
  while (add_up(lock)) {
  }
  return collective.is_finished() || is_aborted();
}

void UcxGroup::wait_for(Collective& collective) {
  std::unique_lock lock(hub_.worker());
  if (!collective.is_finished() && !is_aborted()) {
    NamedWait wait(hub_.board(), collective.note());
    while (!collective.is_finished() && !is_aborted()) {
      if (add_up(lock)) continue;
      wait.update(collective.note());
      if (const auto text = wait.overdue()) {
        fail(*text);
      } else {
        hub_.worker().wait(wait.deadline());
      }
    }
  }
  if (!is_aborted()) return;
  drain(collective);
  throw Error(ErrorKind::unavailable, aborted_);
}

bool UcxGroup::add_up(std::unique_lock<UcxWorker>& lock) {
  // Sums of all collectives, not only of the one waited for: members may wait for theirs in
  // different orders.
  return !is_aborted() && std::ranges::any_of(active_, [&lock](Collective* collective) {
    return collective->add_up(lock);
  });
}

void UcxGroup::take_back(Collective& collective) {
  const std::lock_guard lock(hub_.worker());
  if (!collective.is_finished()) {
    fail(fmt::format("{} {} of group \"{}\" was dropped before it was done",
                     name_of(collective.operation()), collective.sequence(), name_));
    drain(collective);
  }
  std::erase(active_, &collective);
  if (collective.members_under_way().empty())
    idle_.push_back(&collective);
  else
    leave(collective);
}

/// The hub keeps the collective, because over shared memory UCX 1.13 does not end a rendezvous with
/// a process that died within it.
void UcxGroup::leave(Collective& collective) {
  const auto found =
      std::ranges::find_if(collectives_, [&](const auto& own) { return own.get() == &collective; });
  collective.leave_group();
  hub_.keep(std::move(*found));
  collectives_.erase(found);
}

// --- the end

void UcxGroup::abort(const std::string& reason) {
  const std::lock_guard lock(hub_.worker());
  fail(fmt::format("group \"{}\" was aborted: {}", name_, reason));
}

void UcxGroup::on_peer_lost(int rank, const std::string& why) {
  if (std::ranges::find(ranks_, rank) != ranks_.end())
    fail(fmt::format("group \"{}\": the connection to rank {} is lost: {}", name_,
                     hub_.board().rank_of(rank), why));
  notify();  // fail() does not after an abort, but drain() may wait for this peer
}

void UcxGroup::fail(const std::string& reason) {
  if (is_aborted()) return;
  aborted_ = reason;
  requests_.clear();
  notify();
}

void UcxGroup::drain(const Collective& collective) {
  const NamedWait wait(hub_.board(), collective.note());
  const auto limit = Clock::now() + kDrainLimit;
  while (is_held(collective) && Clock::now() < limit) hub_.worker().wait(limit);
  // A member that holds on for so long is dead, and its loss was not reported.
  for (const int member : collective.members_under_way()) hub_.peers().disconnect(rank_of(member));
}

bool UcxGroup::is_held(const Collective& collective) const {
  return std::ranges::any_of(collective.members_under_way(), [this](int member) {
    return hub_.peers().endpoint(rank_of(member)) != nullptr;
  });
}

// --- messages

Collective* UcxGroup::find(std::uint64_t sequence) {
  const auto found = std::ranges::find_if(active_, [sequence](const Collective* collective) {
    return collective->sequence() == sequence;
  });
  return found == active_.end() ? nullptr : *found;
}

int UcxGroup::member_of(int rank) const {
  const auto found = std::ranges::find(ranks_, rank);
  return found == ranks_.end() ? -1 : static_cast<int>(found - ranks_.begin());
}

void UcxGroup::on_request(const PartRequest& request) {
  const CollectiveMessage& message = request.message;
  const int sender = member_of(request.sender);
  Collective* collective = find(message.sequence);
  const bool is_over = !collective && message.sequence < next_sequence_;
  if (is_aborted() || sender < 0 || is_over) return;
  if (collective && !agree(*collective, request)) return;
  Part* part = collective
                   ? collective->find(Part::Kind::send, Part::State::ready, sender, message.part)
                   : nullptr;
  if (part) {
    if (agree(*collective, *part, request.sender, message.bytes)) send(*collective, *part);
  } else if (requests_.size() < kMaxRequests) {
    requests_.push_back(request);
  } else {
    fail(fmt::format("group \"{}\": rank {} is too far ahead of rank {}", name_,
                     hub_.board().rank_of(request.sender), hub_.board().rank_of(rank_of(member_))));
  }
}

void UcxGroup::offer(Collective& collective, Part& part) {
  part.state = Part::State::ready;
  const auto found = std::ranges::find_if(requests_, [&](const PartRequest& request) {
    return request.sender == rank_of(part.member) && request.message.part == part.number &&
           request.message.sequence == collective.sequence();
  });
  if (found == requests_.end()) return;
  const PartRequest request = *found;
  requests_.erase(found);
  if (agree(collective, request) && agree(collective, part, request.sender, request.message.bytes))
    send(collective, part);
}

bool UcxGroup::agree(const Collective& collective, const PartRequest& request) {
  const auto theirs = static_cast<Operation>(request.message.operation);
  if (theirs == collective.operation()) return true;
  fail(
      fmt::format("group \"{}\": number {} is {} at rank {} and {} at rank {}: members must call "
                  "the same collectives in the same order",
                  name_, collective.sequence(), name_of(collective.operation()),
                  hub_.board().rank_of(rank_of(member_)), name_of(theirs),
                  hub_.board().rank_of(request.sender)));
  return false;
}

bool UcxGroup::agree(const Collective& collective, const Part& part, int sender,
                     std::uint64_t bytes) {
  if (bytes == part.bytes) return true;
  fail(fmt::format("group \"{}\": part {} of {} {} has {} bytes at rank {} and {} at rank {}",
                   name_, part.number, name_of(collective.operation()), collective.sequence(),
                   part.bytes, hub_.board().rank_of(rank_of(member_)), bytes,
                   hub_.board().rank_of(sender)));
  return false;
}

Header UcxGroup::header_of(const Collective& collective, const Part& part,
                           CollectiveKind kind) const {
  return {.run = key_.run,
          .epoch = key_.epoch,
          .sender = rank_of(member_),
          .body = CollectiveMessage{.kind = kind,
                                    .group = key_.id,
                                    .sequence = collective.sequence(),
                                    .operation = static_cast<std::uint8_t>(collective.operation()),
                                    .part = part.number,
                                    .bytes = part.bytes}};
}

void UcxGroup::ask_for(Collective& collective, Part& part) {
  if (is_aborted()) return;
  const int rank = rank_of(part.member);
  const ucp_ep_h endpoint = hub_.peers().endpoint(rank);
  if (!endpoint) return on_peer_lost(rank, "there is none");
  hub_.send_control(endpoint, header_of(collective, part, CollectiveKind::request));
}

void UcxGroup::send(Collective& collective, Part& part) {
  const int rank = rank_of(part.member);
  const ucp_ep_h endpoint = hub_.peers().endpoint(rank);
  if (!endpoint) return on_peer_lost(rank, "there is none");
  const std::size_t header_bytes =
      encode(header_of(collective, part, CollectiveKind::data), part.header);
  // Set before the call, because UCX may complete the send within it.
  part.state = Part::State::started;
  part.owner = &collective;
  part.on_done = &UcxGroup::on_transfer_done;
  hub_.worker().use();
  ucx_send(endpoint, MessageId::group, {part.header.data(), header_bytes}, {part.data, part.bytes},
           part);
}

ucs_status_t UcxGroup::on_data(const PartRequest& about, std::span<std::byte> payload,
                               bool is_rendezvous) {
  Collective* collective = find(about.message.sequence);
  Part* part = collective && !is_aborted()
                   ? collective->find(Part::Kind::receive, Part::State::waiting,
                                      member_of(about.sender), about.message.part)
                   : nullptr;
  // UCX drops a payload that is not fetched.
  if (!part || !agree(*collective, *part, about.sender, payload.size())) return UCS_OK;
  part->state = Part::State::started;
  part->owner = collective;
  part->on_done = &UcxGroup::on_transfer_done;
  if (is_rendezvous) {
    ucx_receive(hub_.worker().use(), payload.data(), {part->data, part->bytes}, *part);
    return UCS_INPROGRESS;
  }
  // An eager payload is valid only within this callback.
  std::memcpy(part->data, payload.data(), payload.size());
  on_transfer_done(*part, true);
  return UCS_OK;
}

void UcxGroup::on_transfer_done(Transfer& transfer, bool ok) {
  auto& part = static_cast<Part&>(transfer);
  auto& collective = *static_cast<Collective*>(transfer.owner);
  // The group has given the collective up, and may be gone.
  if (!collective.has_group()) return;
  UcxGroup& group = collective.group();
  if (!ok) group.on_peer_lost(group.rank_of(part.member), "a transfer failed");
  collective.on_part_done(part);
}

}  // namespace troupe::transport
