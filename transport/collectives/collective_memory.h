#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::transport {

/// The memory that a group of hosts has for collectives from its begin. If a collective needs more,
/// the group gets more.
struct CollectiveMemory {
  /// Collectives that run at a time; later ones begin, in their order, when earlier ones are done.
  int at_once = 4;
  /// Bytes of the slots in which the pieces of the largest collective arrive, or more.
  std::size_t slots_bytes = 0;

  std::int64_t bytes() const { return at_once * static_cast<std::int64_t>(slots_bytes); }
};

/// What two members have for each other is cut into pieces of at most so many bytes: several stay
/// in a second-level cache between the steps that they go through.
inline constexpr std::size_t kPieceBytes = 256u << 10;
/// Rounds of a collective under way at a time, so that messages hide behind copies.
inline constexpr std::size_t kRoundsAtOnce = 4;
/// An all-reduce of at most this size is gathered by every member: one exchange instead of two.
inline constexpr std::size_t kGatheredBytes = 32u << 10;

/// Bytes of the slots of a collective in which a member receives from others so many times, in each
/// case `most` bytes at most. Among members of one host there is nothing else.
std::size_t slots_bytes(std::size_t most, std::size_t receives);
/// What slots_bytes() tells, of an all-reduce of at most so many elements.
std::size_t all_reduce_slots_bytes(std::size_t elements, std::size_t element_bytes, int members);

}  // namespace troupe::transport
