#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "transport/memory/slot_memory.h"

namespace troupe::transport {

/// Memory for slots that outlives the node it served: when a configuration opens, most of the time
/// is taken by the system clearing fresh pages. Memory given back waits here for the edges of the
/// next configuration, until clear(). Thread-safe. Must be held by a std::shared_ptr.
class SlotPool : public std::enable_shared_from_this<SlotPool> {
 public:
  /// Memory of at least `bytes`: the smallest free one that is large enough and that no other
  /// process has mapped, else a fresh one. What was made to be shared also serves who does not ask
  /// for that, but not the other way round. It comes back when its last owner is gone. Its bytes
  /// are arbitrary.
  std::shared_ptr<SlotMemory> take(std::size_t bytes, bool shared);
  /// Makes memory of these sizes beforehand.
  void prepare(std::span<const std::size_t> sizes, bool shared);
  /// Gives all free memory back to the system.
  void clear();
  /// Bytes of the memory that nobody has taken.
  std::size_t free_bytes();

 private:
  struct Slots {
    std::unique_ptr<SlotMemory> memory;
    bool shared = false;  ///< made to be, whether or not the system gave such memory
  };
  Slots find(std::size_t bytes, bool shared);
  void give_back(Slots slots);

  std::mutex mutex_;
  std::vector<Slots> free_;
};

}  // namespace troupe::transport
