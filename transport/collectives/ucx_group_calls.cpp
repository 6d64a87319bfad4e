#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "transport/collectives/ucx_group.h"

// What a group knows of the calls of its members.

namespace troupe::transport {

OperationRecord UcxGroup::record_of(const CollectiveCall& call, std::uint64_t sequence) const {
  OperationRecord record{
      .configuration = key_.configuration, .sequence = sequence, .started_s = unix_time()};
  record.set_group(name_);
  record.set_call(call);
  return record;
}

/// The numbers go on from those of the hosts' collectives, as they do at all members.
void UcxGroup::record(const CollectiveCall& call) {
  const std::lock_guard lock(hub_.worker());
  OperationRecord record = record_of(call, next_sequence_++);
  record.by_device = true;
  hub_.recorder().add(record);
}

/// Those that are still recorded, the oldest first.
std::vector<OperationRecord> UcxGroup::called_by_device() const {
  OperationRecord own;
  own.set_group(name_);
  std::vector<OperationRecord> records = hub_.recorder().records();
  std::erase_if(records, [&](const OperationRecord& record) {
    return !record.by_device || record.configuration != key_.configuration ||
           record.group != own.group;
  });
  return records;
}

void UcxGroup::tell_calls() {
  const std::lock_guard lock(hub_.worker());
  if (is_aborted()) return;
  for (const OperationRecord& record : called_by_device()) {
    const CollectiveMessage message{.kind = CollectiveKind::called,
                                    .group = key_.id,
                                    .sequence = record.sequence,
                                    .operation = static_cast<std::uint8_t>(record.operation),
                                    .bytes = record.alike,
                                    .dtype = record.dtype,
                                    .reduction = static_cast<std::uint8_t>(record.reduction)};
    for (const int rank : ranks_)
      if (ucp_ep_h endpoint = rank == rank_of(member_) ? nullptr : hub_.peers().endpoint(rank))
        hub_.send_control(endpoint, {.run = key_.run,
                                     .configuration = key_.configuration,
                                     .sender = rank_of(member_),
                                     .body = message});
  }
}

void UcxGroup::on_called(const PartRequest& about) {
  const CollectiveMessage& message = about.message;
  if (is_aborted() || member_of(about.sender) < 0) return;
  if (message.operation > static_cast<std::uint8_t>(Operation::barrier) ||
      message.reduction > static_cast<std::uint8_t>(tensor::Reduction::average))
    return;
  const auto records = called_by_device();
  const auto own = std::ranges::find(records, message.sequence, &OperationRecord::sequence);
  if (own == records.end()) return;  // not called yet, or replaced since
  const OperationRecord theirs{.operation = static_cast<Operation>(message.operation),
                               .reduction = static_cast<tensor::Reduction>(message.reduction),
                               .dtype = message.dtype,
                               .alike = message.bytes};
  if (own->fits(theirs)) return;
  const int own_rank = hub_.board().rank_of(rank_of(member_));
  const int their_rank = hub_.board().rank_of(about.sender);
  std::string first = fmt::format("{} at rank {}", call_text(*own), own_rank);
  std::string second = fmt::format("{} at rank {}", call_text(theirs), their_rank);
  if (their_rank < own_rank) std::swap(first, second);
  fail(
      fmt::format("group \"{}\": number {} is {} and {}: members must call the same collectives "
                  "in the same order",
                  name_, message.sequence, first, second));
}

}  // namespace troupe::transport
