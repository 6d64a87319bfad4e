#pragma once

#include <vector_types.h>

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulated_grid/grid.h"
#include "tests/emulated_grid/shared_memory.h"

namespace troupe::emulated_grid {

/// An operation of several lanes of a warp at once.
struct WarpOperation {
  const char* name = "";
  unsigned mask = 0;  ///< bit i: lane i takes part
  Place place;
};

/// One block while it runs: its threads, each on a fiber, and its shared memory.
class Block {
 public:
  Block(Grid& grid, const LaunchSize& size, const std::function<void()>& kernel);
  ~Block();

  /// Runs all threads to their ends.
  void run(const dim3& index);

  // Called by the running thread.

  /// The block that runs on this operating-system thread.
  static Block& current();
  void barrier(const Place& place);
  /// Waits until all lanes of the mask have come here, each with its own `lane`. The last one calls
  /// compute(lanes), where lanes[i] is lane i's, null if i is not in the mask.
  void warp(const WarpOperation& operation, void* lane,
            const std::function<void(void* const* lanes)>& compute);
  /// warp() after which the lanes see each other's accesses of shared memory.
  void sync_warp(const WarpOperation& operation);
  SharedMemory& shared(const char* name, const Place& place, const char* type, std::size_t size,
                       long long n);
  std::byte* dynamic_shared() { return dynamic_.get(); }
  Access access() const;

 private:
  enum class State { ready, at_barrier, in_warp_operation, ended };
  struct Thread {
    Block* block = nullptr;
    Fiber* fiber = nullptr;
    unsigned number = 0;
    uint3 index{};
    State state = State::ready;
    Place place;              // where it waits
    WarpOperation operation;  // and for what
    void* lane = nullptr;
    WarpClock clock{};
  };

  static void run_thread(void* thread);
  void resume(Thread& thread);
  void wait(State state);
  void run_ready_threads();
  void pass_barrier();
  void cancel();
  Thread* lane_of(const Thread& thread, unsigned lane);
  bool joined(const Thread& thread, const Thread& other) const;
  std::string describe(const Thread& thread) const;
  [[noreturn]] void deadlock();
  /// Throws Fault if the device has no room for arrays of so many bytes, the last of them `name`,
  /// beside the dynamic shared memory.
  void check_shared(const Place& place, const char* name, std::size_t of_arrays) const;
  void make_dynamic_shared();
  void check_dynamic_shared() const;

  Grid& grid_;
  const LaunchSize size_;
  const std::function<void()>& kernel_;
  std::vector<Thread> threads_;
  std::vector<unsigned> ready_;
  std::deque<SharedMemory> shared_;
  std::unique_ptr<std::byte[]> dynamic_;
  Thread* running_ = nullptr;
  unsigned configuration_ = 0;
  bool cancelled_ = false;
  std::exception_ptr fault_;
};

}  // namespace troupe::emulated_grid
