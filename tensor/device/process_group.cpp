#include "tensor/device/process_group.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tensor/errors/error.h"

namespace troupe::tensor {
namespace {

/// Asserts that what the member gives and takes fits the counts.
void check(const CollectiveCall& call, std::size_t member, std::size_t members) {
  const auto fits = [&](std::span<const std::int64_t> counts, const Tensor& whole) {
    return counts.size() == members &&
           whole.num_elements() == elements_before(counts, counts.size());
  };
  switch (call.operation) {
    case Operation::all_gather:
      return TROUPE_ASSERT(fits(call.receive_counts, call.out[0]) &&
                           call.in[0].num_elements() == call.receive_counts[member] &&
                           call.in[0].dtype == call.out[0].dtype);
    case Operation::reduce_scatter:
      return TROUPE_ASSERT(fits(call.send_counts, call.in[0]) &&
                           call.out[0].num_elements() == call.send_counts[member] &&
                           (call.in[0].dtype == call.out[0].dtype ||
                            (call.in[0].dtype == DType::bf16 && call.out[0].dtype == DType::f32)));
    case Operation::all_to_all:
      return TROUPE_ASSERT(fits(call.send_counts, call.in[0]) &&
                           fits(call.receive_counts, call.out[0]) &&
                           call.in[0].dtype == call.out[0].dtype &&
                           call.send_counts[member] == call.receive_counts[member]);
    case Operation::broadcast:
      return TROUPE_ASSERT(call.root >= 0 && static_cast<std::size_t>(call.root) < members);
    case Operation::all_reduce:
    case Operation::barrier:
      return;
  }
}

}  // namespace

MadeGroup Device::make_group(const GroupSpec&, ProcessGroup&) {
  return {};
}

std::int64_t elements_before(std::span<const std::int64_t> counts, std::size_t member) {
  const auto before = counts.first(member);
  return std::accumulate(before.begin(), before.end(), std::int64_t{0});
}

CollectiveCall completed(const CollectiveCall& call, int member, std::span<std::int64_t> counts) {
  CollectiveCall all = call;
  const auto every_member = [&](std::int64_t elements) {
    std::ranges::fill(counts, elements);
    return std::span<const std::int64_t>(counts);
  };
  switch (call.operation) {
    case Operation::all_reduce:
    case Operation::broadcast:
      all.in = call.out;
      break;
    case Operation::all_gather:
      if (call.receive_counts.empty()) all.receive_counts = every_member(call.in[0].num_elements());
      break;
    case Operation::reduce_scatter:
      if (call.send_counts.empty()) all.send_counts = every_member(call.out[0].num_elements());
      break;
    case Operation::all_to_all:
      if (call.send_counts.empty()) {
        const auto members = static_cast<std::int64_t>(counts.size());
        TROUPE_ASSERT(call.in[0].num_elements() % members == 0);
        all.send_counts = all.receive_counts = every_member(call.in[0].num_elements() / members);
      }
      break;
    case Operation::barrier:
      break;
  }
  check(all, static_cast<std::size_t>(member), counts.size());
  return all;
}

void copy_elements(const Tensor& from, std::int64_t from_begin, const Tensor& to,
                   std::int64_t to_begin, std::int64_t count) {
  const std::size_t element = size_of(from.dtype);
  const std::byte* source = from.as<std::byte>() + static_cast<std::size_t>(from_begin) * element;
  std::byte* target = to.as<std::byte>() + static_cast<std::size_t>(to_begin) * element;
  if (count > 0 && source != target)
    std::memcpy(target, source, static_cast<std::size_t>(count) * element);
}

}  // namespace troupe::tensor
