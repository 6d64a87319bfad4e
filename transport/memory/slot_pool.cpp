#include "transport/memory/slot_pool.h"

#include <algorithm>
#include <utility>

namespace troupe::transport {
namespace {

/// Memory more than this many times larger than asked for is left for larger requests.
constexpr std::size_t kMostWaste = 2;

std::unique_ptr<SlotMemory> make_slots(std::size_t bytes, bool shared) {
  return shared ? make_shared_slots(bytes) : make_private_slots(bytes);
}

}  // namespace

std::shared_ptr<SlotMemory> SlotPool::take(std::size_t bytes, bool shared) {
  Slots slots = find(bytes, shared);
  if (!slots.memory) slots = {make_slots(bytes, shared), shared};
  const auto give_back = [pool = weak_from_this(), shared = slots.shared](SlotMemory* used) {
    std::unique_ptr<SlotMemory> owner(used);
    if (const auto alive = pool.lock()) alive->give_back({std::move(owner), shared});
  };
  return {slots.memory.release(), give_back};
}

SlotPool::Slots SlotPool::find(std::size_t bytes, bool shared) {
  const std::lock_guard lock(mutex_);
  while (true) {
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      const std::size_t has = it->memory->bytes();
      if (has >= bytes && has / kMostWaste <= bytes && (it->shared || !shared) &&
          (best == free_.end() || has < best->memory->bytes()))
        best = it;
    }
    if (best == free_.end()) return {};
    Slots slots = std::move(*best);
    free_.erase(best);
    if (slots.memory->reclaim()) return slots;
  }
}

void SlotPool::give_back(Slots slots) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(slots));
}

void SlotPool::prepare(std::span<const std::size_t> sizes, bool shared) {
  for (const std::size_t bytes : sizes) give_back({make_slots(bytes, shared), shared});
}

std::size_t SlotPool::free_bytes() {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const Slots& slots : free_) bytes += slots.memory->bytes();
  return bytes;
}

void SlotPool::clear() {
  std::vector<Slots> unused;
  const std::lock_guard lock(mutex_);
  unused.swap(free_);
}

}  // namespace troupe::transport
