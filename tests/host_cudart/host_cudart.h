#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace troupe::test {

/// A kernel of the host runtime: it runs until `ends` says so, which any thread may be asked.
struct HostKernel {
  std::string name;
  std::function<bool()> ends = [] { return true; };
};

/// CUDA's runtime for machines without a GPU, linked in its place: two GPUs on the host.
///
/// As on a GPU, the streams of a GPU share a few hardware queues, in turn as they are made. What a
/// queue holds runs in order: work that waits keeps back all that was given to the queue later,
/// whatever its stream. There are as many queues as CUDA_DEVICE_MAX_CONNECTIONS said when the first
/// call that makes a context came, 8 without it. Kernels are loaded at their first launch, unless
/// CUDA_MODULE_LOADING was EAGER at the first call of all: who loads one holds the context's lock,
/// which every call takes, until all queues are empty.
///
/// Memory is the host's and starts as 0xff. Copies are refused whose addresses are neither device
/// memory nor pinned, and so are streams and events of another GPU than the calling thread's.
class HostCudart {
 public:
  /// Who runs the queues: run() and calls that wait, on their own thread, one at a time; or a
  /// thread for each queue, and then any threads may call.
  enum class Runs { when_told, on_threads };

  /// A machine with nothing queued, nothing allocated, no context, and the settings below.
  static HostCudart& reset(Runs runs = Runs::when_told);
  static HostCudart& get();

  /// Runs all streams until nothing is left that can run.
  void run();
  /// What a launch function does with a kernel.
  cudaError_t launch(const HostKernel& kernel, cudaStream_t stream);
  /// Makes the queues ask their kernels again whether they have ended.
  void tell();
  /// The first call that waited longer than `deadline`, and for what; empty if none has. From then
  /// on every call fails, and nothing runs any more.
  std::string deadlock();
  /// How many hardware queues a GPU has; 0 before there is a context.
  int hardware_queues();
  /// Whether somebody holds the context's lock to load a kernel.
  bool is_loading();

  // Settings, for as long as no other thread calls.
  int major = 9;                              ///< compute capability of both GPUs
  std::size_t memory = std::size_t{1} << 30;  ///< of each GPU
  std::size_t used = 0;                       ///< of the GPUs' memory, by cudaMalloc
  std::size_t used_by_others = 0;             ///< by other processes
  std::function<void()> on_full;              ///< called when a cudaMalloc finds no room
  cudaError_t next_record = cudaSuccess;      ///< what the next cudaEventRecord returns
  float stamp_ms = 0;                         ///< the time that events take when they are reached
  std::chrono::milliseconds deadline = std::chrono::seconds(60);  ///< of a call that waits
};

}  // namespace troupe::test
