#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace troupe::fake_nccl {

/// A GPU has room for one kernel of NCCL at a time. They take it in the order in which they were
/// launched, whatever their streams: launched in another order on another GPU, two that wait for
/// each other's peers deadlock.
class Gpu {
 public:
  /// A kernel of a communicator, from its launch to its end.
  struct Launch {
    std::uint64_t communicator = 0;
    std::uint64_t number = 0;  ///< among the communicator's, from 1
  };

  /// The GPU that `key` stands for.
  static std::shared_ptr<Gpu> of(const void* key);

  /// Returns those of other communicators that come before it, of each the last.
  std::vector<Launch> launch(const Launch& launch);
  bool has_slot(const Launch& launch);
  /// Whether a kernel of `communicator`, no later than `number`, waits for the slot.
  bool is_waiting(std::uint64_t communicator, std::uint64_t number);
  void end(const Launch& launch);
  /// Blocks until no kernel is left, as freeing memory does.
  void wait_until_idle();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Launch> launches_;  ///< the first has the slot
};

}  // namespace troupe::fake_nccl
