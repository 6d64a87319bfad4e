#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "transport/collectives/ucx_group.h"
#include "transport/ucx/ucx_transfer.h"

// The messages of a group: requests for parts, and the parts.

namespace troupe::transport {
namespace {

/// Requests kept from members that are ahead of this one.
constexpr std::size_t kMaxRequests = 4096;

/// "a sum of float32", "of float32".
std::string elements_text(Operation operation, tensor::Reduction reduction, tensor::DType dtype) {
  if (!reduces(operation)) return fmt::format("of {}", name_of(dtype));
  return fmt::format("{} of {}", name_of(reduction), name_of(dtype));
}

/// Whether a part lies in the segment that its receiver has named.
bool fits(const CollectiveMessage& message) {
  return message.offset <= message.segment_bytes &&
         message.bytes <= message.segment_bytes - message.offset;
}

}  // namespace

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
  GroupPart* part = collective ? collective->find(GroupPart::Kind::send, GroupPart::State::ready,
                                                  sender, message.part)
                               : nullptr;
  if (part) {
    answer(*collective, *part, request);
  } else if (requests_.size() < kMaxRequests) {
    requests_.push_back(request);
  } else {
    fail(fmt::format("group \"{}\": rank {} is too far ahead of rank {}", name_,
                     hub_.board().rank_of(request.sender), hub_.board().rank_of(rank_of(member_))));
  }
}

void UcxGroup::offer(Collective& collective, GroupPart& part) {
  part.state = GroupPart::State::ready;
  const auto found = std::ranges::find_if(requests_, [&](const PartRequest& request) {
    return request.sender == rank_of(part.member) && request.message.part == part.number &&
           request.message.sequence == collective.sequence();
  });
  if (found == requests_.end()) return;
  const PartRequest request = *found;
  requests_.erase(found);
  if (agree(collective, request)) answer(collective, part, request);
}

/// The part is copied, and sent after that.
void UcxGroup::answer(Collective& collective, GroupPart& part, const PartRequest& request) {
  if (!agree(collective, part, request)) return;
  const CollectiveMessage& message = request.message;
  std::byte* memory = hub_.peers().share_memory_with(request.sender) && fits(message)
                          ? segments_.find(message.segment, message.segment_bytes)
                          : nullptr;
  collective.on_asked(part, memory ? memory + message.offset : nullptr);
}

bool UcxGroup::agree(const Collective& collective, const PartRequest& request) {
  const CollectiveMessage& message = request.message;
  const auto theirs = static_cast<Operation>(message.operation);
  const auto reduction = static_cast<tensor::Reduction>(message.reduction);
  const int own_rank = hub_.board().rank_of(rank_of(member_));
  const int their_rank = hub_.board().rank_of(request.sender);
  if (theirs != collective.operation()) {
    fail(
        fmt::format("group \"{}\": number {} is {} at rank {} and {} at rank {}: members must call "
                    "the same collectives in the same order",
                    name_, collective.sequence(), name_of(collective.operation()), own_rank,
                    name_of(theirs), their_rank));
    return false;
  }
  if (message.dtype != collective.dtype() || reduction != collective.reduction()) {
    fail(fmt::format("group \"{}\": {} {} is {} at rank {} and {} at rank {}", name_,
                     name_of(theirs), collective.sequence(),
                     elements_text(theirs, collective.reduction(), collective.dtype()), own_rank,
                     elements_text(theirs, reduction, message.dtype), their_rank));
    return false;
  }
  return true;
}

bool UcxGroup::agree(const Collective& collective, const GroupPart& part,
                     const PartRequest& about) {
  if (about.message.bytes == part.bytes) return true;
  fail(fmt::format("group \"{}\": part {} of {} {} has {} bytes at rank {} and {} at rank {}",
                   name_, part.number, name_of(collective.operation()), collective.sequence(),
                   part.bytes, hub_.board().rank_of(rank_of(member_)), about.message.bytes,
                   hub_.board().rank_of(about.sender)));
  return false;
}

Header UcxGroup::header_of(const Collective& collective, const GroupPart& part,
                           CollectiveKind kind) const {
  CollectiveMessage message{.kind = kind,
                            .group = key_.id,
                            .sequence = collective.sequence(),
                            .operation = static_cast<std::uint8_t>(collective.operation()),
                            .part = part.number,
                            .bytes = part.bytes,
                            .dtype = collective.dtype(),
                            .reduction = static_cast<std::uint8_t>(collective.reduction())};
  if (kind == CollectiveKind::request && part.slot) {
    message.segment = collective.slots()->name();
    message.segment_bytes = collective.slots()->bytes();
    message.offset = static_cast<std::uint64_t>(part.slot - collective.slots()->data());
  }
  return {.run = key_.run,
          .configuration = key_.configuration,
          .sender = rank_of(member_),
          .body = message};
}

void UcxGroup::ask_for(Collective& collective, GroupPart& part) {
  if (is_aborted()) return;
  const int rank = rank_of(part.member);
  const ucp_ep_h endpoint = hub_.peers().endpoint(rank);
  if (!endpoint) return on_peer_lost(rank, "there is none");
  hub_.send_control(endpoint, header_of(collective, part, CollectiveKind::request));
}

void UcxGroup::send(Collective& collective, GroupPart& part) {
  const int rank = rank_of(part.member);
  const ucp_ep_h endpoint = hub_.peers().endpoint(rank);
  if (!endpoint) return on_peer_lost(rank, "there is none");
  hub_.peers().count_sent(rank, part.bytes);
  if (part.is_written) {
    part.state = GroupPart::State::done;
    // What was written is visible before the header: UCX's store fence orders both.
    hub_.send_control(endpoint, header_of(collective, part, CollectiveKind::written));
    return;
  }
  const std::size_t header_bytes =
      encode(header_of(collective, part, CollectiveKind::data), part.header);
  // Set before the call, because UCX may complete the send within it.
  part.state = GroupPart::State::started;
  part.owner = &collective;
  part.on_done = &UcxGroup::on_transfer_done;
  hub_.worker().use();
  ucx_send(endpoint, MessageId::group, {part.header.data(), header_bytes}, {part.slot, part.bytes},
           part);
}

ucs_status_t UcxGroup::on_data(const PartRequest& about, std::span<std::byte> payload,
                               bool is_rendezvous) {
  Collective* collective = find(about.message.sequence);
  GroupPart* part = collective && !is_aborted()
                        ? collective->find(GroupPart::Kind::receive, GroupPart::State::waiting,
                                           member_of(about.sender), about.message.part)
                        : nullptr;
  // UCX drops a payload that is not fetched.
  if (!part || !agree(*collective, *part, about)) return UCS_OK;
  if (about.message.kind == CollectiveKind::written) {
    collective->on_arrived(*part);
    return UCS_OK;
  }
  if (payload.size() != part->bytes) {
    fail(fmt::format("group \"{}\": rank {} sent {} bytes as part {} of {} {}, expected {}", name_,
                     hub_.board().rank_of(about.sender), payload.size(), part->number,
                     name_of(collective->operation()), collective->sequence(), part->bytes));
    return UCS_OK;
  }
  part->state = GroupPart::State::started;
  part->owner = collective;
  part->on_done = &UcxGroup::on_transfer_done;
  if (is_rendezvous) {
    ucx_receive(hub_.worker().use(), payload.data(), {part->slot, part->bytes}, *part);
    return UCS_INPROGRESS;
  }
  // An eager payload is valid only within this callback.
  std::memcpy(part->slot, payload.data(), payload.size());
  on_transfer_done(*part, true);
  return UCS_OK;
}

void UcxGroup::on_transfer_done(Transfer& transfer, bool ok) {
  auto& part = static_cast<GroupPart&>(transfer);
  auto& collective = *static_cast<Collective*>(transfer.owner);
  // The group has given the collective up, and may be gone.
  if (!collective.has_group()) return;
  UcxGroup& group = collective.group();
  if (!ok) group.on_peer_lost(group.rank_of(part.member), "a transfer failed");
  part.kind == GroupPart::Kind::send ? collective.on_sent(part) : collective.on_arrived(part);
}

}  // namespace troupe::transport
