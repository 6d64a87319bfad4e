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
  auto memory = find(bytes);
  if (!memory) memory = make_slots(bytes, shared);
  const auto give_back = [pool = weak_from_this()](SlotMemory* used) {
    std::unique_ptr<SlotMemory> owner(used);
    if (const auto alive = pool.lock()) alive->give_back(std::move(owner));
  };
  return {memory.release(), give_back};
}

std::unique_ptr<SlotMemory> SlotPool::find(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  while (true) {
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it)
      if ((*it)->bytes() >= bytes && (*it)->bytes() / kMostWaste <= bytes &&
          (best == free_.end() || (*it)->bytes() < (*best)->bytes()))
        best = it;
    if (best == free_.end()) return nullptr;
    std::unique_ptr<SlotMemory> memory = std::move(*best);
    free_.erase(best);
    if (memory->reclaim()) return memory;
  }
}

void SlotPool::give_back(std::unique_ptr<SlotMemory> memory) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(memory));
}

void SlotPool::prepare(std::span<const std::size_t> sizes, bool shared) {
  for (const std::size_t bytes : sizes) give_back(make_slots(bytes, shared));
}

std::size_t SlotPool::free_bytes() {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& memory : free_) bytes += memory->bytes();
  return bytes;
}

void SlotPool::clear() {
  std::vector<std::unique_ptr<SlotMemory>> unused;
  const std::lock_guard lock(mutex_);
  unused.swap(free_);
}

}  // namespace troupe::transport
