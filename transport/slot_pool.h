#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "transport/slot_memory.h"

namespace troupe::transport {

/// Memory for slots that outlives the node it served: most of what opening an epoch takes is that
/// the system clears fresh pages. What is given back waits here for the next epoch's edges, until
/// clear(). Any thread. Must be held by a std::shared_ptr.
class SlotPool : public std::enable_shared_from_this<SlotPool> {
 public:
  /// At least so many bytes: the smallest free memory that is large enough and that nobody else has
  /// mapped, else fresh one. It comes back with its last owner. Its bytes are arbitrary.
  std::shared_ptr<SlotMemory> take(std::size_t bytes, bool shared);
  /// Makes memory of these sizes beforehand.
  void prepare(std::span<const std::size_t> sizes, bool shared);
  /// Gives back to the system what is free.
  void clear();

 private:
  std::unique_ptr<SlotMemory> find(std::size_t bytes);
  void give_back(std::unique_ptr<SlotMemory> memory);

  std::mutex mutex_;
  std::vector<std::unique_ptr<SlotMemory>> free_;
};

}  // namespace troupe::transport
