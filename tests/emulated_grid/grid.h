#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "tensor/cuda/kernels/grid/grid_types.h"
#include "tests/emulated_grid/fiber.h"
#include "tests/emulated_grid/stream_queue.h"

namespace troupe::emulated_grid {

inline constexpr unsigned kMostThreads = 1024;  // of a block, on every GPU

/// The size of a launch, as CUDA's <<<blocks, threads, shared_bytes>>> has it.
struct LaunchSize {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;          ///< dynamic shared memory of each block
  unsigned thread_bound = kMostThreads;  ///< threads of a block that the kernel is compiled for
};

/// The threads of a block that a kernel's __launch_bounds__ allows; kMostThreads if it has none.
unsigned thread_bound(const void* kernel);

/// A GPU's stream on the host: a launch has run when it returns, unless the stream's queue has work
/// before it that waits for others. Blocks run one after the other, and the threads of a block by
/// turns on fibers, both in an order drawn from the seed: a kernel whose result depends on the
/// order shows it with some seed. With seed 0 they run in ascending order, and after a wait in the
/// order in which the wait ended. A block may have `shared_limit` bytes of shared memory, static
/// arrays included, as on one of the GPUs of grid_types.h. Used by one operating-system thread at a
/// time.
class Grid {
 public:
  /// `owner` stands for the GPU.
  explicit Grid(std::uint64_t seed, std::size_t shared_limit = tensor::cuda::kSharedOf90,
                const void* owner = nullptr)
      : owner_(owner), state_(seed), shuffled_(seed != 0), shared_limit_(shared_limit) {}

  /// What a launch function takes for its stream.
  cudaStream_t stream() { return reinterpret_cast<cudaStream_t>(this); }
  static Grid& of(cudaStream_t stream) { return *reinterpret_cast<Grid*>(stream); }

  const void* owner() const { return owner_; }
  /// What the stream was given and has not run.
  StreamQueue& queue() { return queue_; }

  /// Calls `kernel` once per thread of the launch. Throws Fault for what the emulation found, and
  /// whatever a kernel throws.
  void run(const LaunchSize& size, const std::function<void()>& kernel);

  std::size_t shared_limit() const { return shared_limit_; }
  /// How many launches have run.
  int launches() const { return launches_; }

  /// A number below `n`, to choose who comes next: random, or `first` with seed 0.
  std::size_t draw(std::size_t n, std::size_t first);
  /// `count` fibers, one for each thread of a block.
  std::span<const std::unique_ptr<Fiber>> fibers(std::size_t count);

 private:
  const void* const owner_;
  std::uint64_t state_;
  const bool shuffled_;
  const std::size_t shared_limit_;
  std::thread::id thread_;  ///< that the fibers ran on
  int launches_ = 0;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  StreamQueue queue_;  ///< last: its thread runs launches
};

}  // namespace troupe::emulated_grid
