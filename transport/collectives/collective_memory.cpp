#include "transport/collectives/collective_memory.h"

#include <algorithm>

#include "transport/memory/slot_memory.h"

namespace troupe::transport {
namespace {

std::size_t divide_up(std::size_t a, std::size_t b) {
  return (a + b - 1) / b;
}

}  // namespace

/// A slot for each receive of each round under way.
std::size_t slots_bytes(std::size_t most, std::size_t receives) {
  const std::size_t rounds = std::min(kRoundsAtOnce, divide_up(most, kPieceBytes));
  const std::size_t slot = in_cache_lines(std::min(most, kPieceBytes));
  return rounds * receives * slot;
}

/// A member that gathers receives all of each other one; else its slice of all, and theirs of the
/// result.
std::size_t all_reduce_slots_bytes(std::size_t elements, std::size_t element_bytes, int members) {
  const auto count = static_cast<std::size_t>(members);
  const std::size_t bytes = elements * element_bytes;
  const std::size_t gathered = slots_bytes(std::min(bytes, kGatheredBytes), count - 1);
  if (bytes <= kGatheredBytes) return gathered;
  return std::max(gathered,
                  slots_bytes(divide_up(elements, count) * element_bytes, 2 * (count - 1)));
}

}  // namespace troupe::transport
