#include "tensor/errors/error.h"
#include "transport/collectives/collective.h"
#include "transport/collectives/ucx_group.h"

namespace troupe::transport {
namespace {

/// The elements of one member where the members' elements lie in member order.
ElementRange block(std::span<const std::int64_t> counts, std::size_t member) {
  return {.begin = static_cast<std::size_t>(tensor::elements_before(counts, member)),
          .size = static_cast<std::size_t>(counts[member])};
}

/// One of `members` nearly equal slices of a row.
ElementRange slice(std::size_t elements, std::size_t members, std::size_t member) {
  const std::size_t begin = member * elements / members;
  return {.begin = begin, .size = (member + 1) * elements / members - begin};
}

}  // namespace

void Collective::plan(const CollectiveCall& call) {
  operation_ = call.operation;
  reduction_ = call.reduction;
  dtype_ = call.in.empty() ? tensor::DType::f32 : call.in.front().dtype;
  in_.assign(call.in);
  out_.assign(call.out);
  widens_ = !call.out.empty() && call.out.front().dtype != dtype_;
  flows_.assign(static_cast<std::size_t>(group_->size()), Flow{});
  own_ = {};
  is_gathered_ = false;
  switch (call.operation) {
    case Operation::all_reduce:
      return plan_all_reduce();
    case Operation::all_gather:
      return plan_blocks({}, call.receive_counts);
    case Operation::reduce_scatter:
      own_ = block(call.send_counts, static_cast<std::size_t>(group_->member()));
      return plan_blocks(call.send_counts, {});
    case Operation::all_to_all:
      return plan_blocks(call.send_counts, call.receive_counts);
    case Operation::broadcast:
      return plan_broadcast(call.root);
    case Operation::barrier:
      return;
  }
}

void Collective::plan_all_reduce() {
  const std::size_t elements = in_.num_elements();
  const auto self = static_cast<std::size_t>(group_->member());
  is_gathered_ = elements * in_.element_bytes() <= kGatheredBytes;
  own_ = is_gathered_ ? ElementRange{.begin = 0, .size = elements}
                      : slice(elements, flows_.size(), self);
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    Flow& flow = flows_[i];
    if (is_gathered_) {
      flow.sends[0] = flow.receives[0] = own_;
      continue;
    }
    const ElementRange theirs = slice(elements, flows_.size(), i);
    flow.sends = {theirs, own_};
    flow.receives = {own_, theirs};
  }
}

void Collective::plan_blocks(std::span<const std::int64_t> send_counts,
                             std::span<const std::int64_t> receive_counts) {
  const ElementRange all{.begin = 0, .size = in_.num_elements()};
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    flows_[i].sends[0] = send_counts.empty() ? all : block(send_counts, i);
    flows_[i].receives[0] = receive_counts.empty() ? own_ : block(receive_counts, i);
  }
}

void Collective::plan_broadcast(int root) {
  const ElementRange all{.begin = 0, .size = in_.num_elements()};
  if (group_->member() != root)
    flows_[static_cast<std::size_t>(root)].receives[0] = all;
  else
    for (Flow& flow : flows_) flow.sends[0] = all;
}

}  // namespace troupe::transport
