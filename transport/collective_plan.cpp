#include <algorithm>
#include <cstring>

#include "tensor/error.h"
#include "tensor/host_memory.h"
#include "transport/collective.h"
#include "transport/ucx/ucx_group.h"

namespace troupe::transport {
namespace {

/// An all-reduce of at most this size is gathered by every member: one exchange instead of two.
constexpr std::size_t kGatheredSumBytes = 64u << 10;
/// The piece of its slice of a large sum that a member adds up at a time.
constexpr std::size_t kPieceBytes = 1u << 20;

std::byte* bytes_of(const tensor::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.data);
}

/// Copies nothing if both are the same memory, which memcpy does not allow.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (to != from) std::memcpy(to, from, bytes);
}

}  // namespace

std::uint32_t Collective::num_rounds() const {
  const auto members = static_cast<std::size_t>(group_->size());
  if (call_.out.num_elements() == 0 || (members == 1 && call_.operation == Operation::broadcast))
    return 0;
  const bool is_sliced =
      call_.operation == Operation::reduce_scatter ||
      (call_.operation == Operation::all_reduce && call_.in.num_bytes() > kGatheredSumBytes);
  if (!is_sliced) return 1;
  const std::size_t slice = (call_.in.num_bytes() + members - 1) / members;
  return static_cast<std::uint32_t>((slice + kPieceBytes - 1) / kPieceBytes);
}

void Collective::plan(Round& round) {
  switch (call_.operation) {
    case Operation::all_gather:
      return plan_all_gather(round);
    case Operation::all_to_all:
      return plan_all_to_all(round);
    case Operation::broadcast:
      return plan_broadcast(round);
    case Operation::reduce_scatter:
      return plan_sliced_sum(round);
    case Operation::all_reduce:
      break;
  }
  call_.in.num_bytes() > kGatheredSumBytes ? plan_sliced_sum(round) : plan_gathered_sum(round);
}

void Collective::plan_all_gather(Round& round) {
  const std::size_t bytes = call_.in.num_bytes();
  const auto block = [this, bytes](int member) {
    return bytes_of(call_.out) + static_cast<std::size_t>(member) * bytes;
  };
  copy_bytes(block(group_->member()), bytes_of(call_.in), bytes);
  for (int other = 0; other < group_->size(); ++other) {
    if (other == group_->member()) continue;
    add_part(round, Part::Kind::send, 0, other, block(group_->member()), bytes);
    add_part(round, Part::Kind::receive, 0, other, block(other), bytes);
  }
}

void Collective::plan_all_to_all(Round& round) {
  const std::size_t bytes = call_.in.num_bytes() / static_cast<std::size_t>(group_->size());
  for (int other = 0; other < group_->size(); ++other) {
    const std::size_t offset = static_cast<std::size_t>(other) * bytes;
    if (other == group_->member()) {
      copy_bytes(bytes_of(call_.out) + offset, bytes_of(call_.in) + offset, bytes);
      continue;
    }
    add_part(round, Part::Kind::send, 0, other, bytes_of(call_.in) + offset, bytes);
    add_part(round, Part::Kind::receive, 0, other, bytes_of(call_.out) + offset, bytes);
  }
}

void Collective::plan_broadcast(Round& round) {
  const tensor::Tensor& x = call_.in;
  if (group_->member() != call_.root)
    return add_part(round, Part::Kind::receive, 0, call_.root, bytes_of(x), x.num_bytes());
  for (int other = 0; other < group_->size(); ++other)
    if (other != call_.root)
      add_part(round, Part::Kind::send, 0, other, bytes_of(x), x.num_bytes());
}

void Collective::plan_gathered_sum(Round& round) {
  const std::size_t bytes = call_.in.num_bytes();
  std::byte* values = scratch(round, static_cast<std::size_t>(group_->size()) * bytes);
  const auto block = [values, bytes](int member) {
    return values + static_cast<std::size_t>(member) * bytes;
  };
  // Copied, because other members may fetch the values after this one has overwritten x with the
  // sum.
  copy_bytes(block(group_->member()), bytes_of(call_.in), bytes);
  for (int member = 0; member < group_->size(); ++member) {
    round.summands.push_back(block(member));
    if (member == group_->member()) continue;
    add_part(round, Part::Kind::send, 0, member, block(group_->member()), bytes);
    add_part(round, Part::Kind::receive, 0, member, block(member), bytes);
  }
  round.sum = bytes_of(call_.out);
  round.sum_elements = static_cast<std::size_t>(call_.out.num_elements());
}

void Collective::plan_sliced_sum(Round& round) {
  const bool is_spread = call_.operation == Operation::all_reduce;
  const std::size_t element = tensor::size_of(call_.in.dtype);
  const Piece own = piece(group_->member(), round.index);
  std::byte* values = scratch(round, static_cast<std::size_t>(group_->size()) * own.size * element);
  round.sum_elements = own.size;
  round.sum = bytes_of(call_.out) +
              (is_spread ? own.begin : round.index * (kPieceBytes / element)) * element;
  for (int member = 0; member < group_->size(); ++member) {
    const Piece theirs = piece(member, round.index);
    std::byte* in = bytes_of(call_.in) + theirs.begin * element;
    std::byte* value = values + static_cast<std::size_t>(member) * own.size * element;
    const bool is_own = member == group_->member();
    if (own.size > 0) round.summands.push_back(is_own ? in : value);
    if (is_own) continue;
    add_part(round, Part::Kind::send, 0, member, in, theirs.size * element);
    add_part(round, Part::Kind::receive, 0, member, value, own.size * element);
    if (!is_spread) continue;
    // The owner sends the sum only after it has fetched the values that the sum overwrites here.
    add_part(round, Part::Kind::receive, 1, member, in, theirs.size * element);
    add_part(round, Part::Kind::send, 1, member, round.sum, own.size * element);
  }
}

Collective::Piece Collective::piece(int slice, std::uint32_t round) const {
  const auto elements = static_cast<std::size_t>(call_.in.num_elements());
  const auto members = static_cast<std::size_t>(group_->size());
  const std::size_t step = kPieceBytes / tensor::size_of(call_.in.dtype);
  const std::size_t end = (static_cast<std::size_t>(slice) + 1) * elements / members;
  const std::size_t begin = static_cast<std::size_t>(slice) * elements / members + round * step;
  return {.begin = begin, .size = begin < end ? std::min(step, end - begin) : 0};
}

std::byte* Collective::scratch(Round& round, std::size_t bytes) {
  // Grows only: the collective is used again, and a step allocates nothing once it has its memory.
  if (round.scratch.bytes() < bytes) round.scratch = tensor::allocate_host(bytes);
  return static_cast<std::byte*>(round.scratch.data());
}

void Collective::add_part(Round& round, Part::Kind kind, int phase, int member, std::byte* data,
                          std::size_t bytes) {
  // Both members know the size, so an empty part needs no message.
  if (bytes == 0) return;
  TROUPE_ASSERT(round.parts.size() < round.parts.capacity());
  Part& part = round.parts.emplace_back();
  part.kind = kind;
  part.member = member;
  part.number = 2 * round.index + static_cast<std::uint32_t>(phase);
  part.data = data;
  part.bytes = bytes;
}

}  // namespace troupe::transport
