#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/host_cudart/hardware_queue.h"
#include "tests/host_cudart/host_cudart.h"
#include "tests/host_cudart/memory_map.h"

/// A stream of the runtime.
struct CUstream_st {
  int device = 0;
  troupe::host_cudart::HardwareQueue* queue = nullptr;
  std::shared_ptr<int> pending = std::make_shared<int>(0);  ///< works that have not ended
};

struct CUevent_st {
  /// Marks are numbered; those up to `reached` are reached.
  struct State {
    int marks = 0, reached = 0;
    float stamp_ms = 0;
  };
  int device = 0;
  bool timed = false;
  std::shared_ptr<State> state = std::make_shared<State>();  ///< marks may outlive the event
  troupe::host_cudart::HardwareQueue* queue = nullptr;       ///< that of the latest mark
};

namespace troupe::host_cudart {

/// The GPUs behind the runtime's calls: queues, the threads that run them, the context's lock.
class Machine {
 public:
  using Lock = std::unique_lock<std::mutex>;

  explicit Machine(test::HostCudart::Runs runs);
  /// Drops what has not run.
  ~Machine();

  /// The machine of the process: CUDA's functions have no argument that names one.
  static std::unique_ptr<Machine>& current();

  test::HostCudart settings;
  MemoryMap memory;  // guarded by the lock

  /// A call of the runtime holds the machine's lock while it looks and changes. It first waits for
  /// the context's lock. `code` is not success if the machine has stopped.
  struct Call {
    Lock lock;
    cudaError_t code;
  };
  Call begin_call(const char* name);
  /// Blocks a call until ready(); the lock is let go meanwhile.
  cudaError_t wait(Call& call, const char* name, const std::function<bool()>& ready);

  /// Makes the context, with the queues that the environment asks for.
  void make_context();
  cudaStream_t make_stream(int device);
  void destroy_stream(cudaStream_t stream);
  CUstream_st& legacy() { return legacy_; }
  /// Work that runs, once it may, without the lock. The caller holds the lock.
  void give(CUstream_st& stream, std::string what, std::function<bool()> may_run,
            std::function<void()> run);
  /// Whether nothing is left to run, on streams that were made, or on the legacy stream, too.
  bool are_streams_idle() const;
  bool is_idle() const { return are_streams_idle() && legacy_queue_.is_idle(); }
  /// Loads a kernel if it has not been. Returns an error if the queues never became empty.
  cudaError_t load(Call& call, const std::string& kernel);

  // For HostCudart.
  void run();
  void tell();
  std::string deadlock();
  int connections();
  bool is_loading();
  bool runs_when_told() const { return runs_ == test::HostCudart::Runs::when_told; }
  /// Runs a queue as far as it can, where calls run them. The lock is held.
  bool run_queue(Lock& lock, HardwareQueue& queue);

 private:
  void loop(HardwareQueue& queue);
  void run_first(Lock& lock, HardwareQueue& queue);
  bool run_all(Lock& lock);
  void stop(const std::string& why);
  std::string text_of_queues() const;

  const test::HostCudart::Runs runs_;
  std::mutex mutex_;  // of all that follows
  std::condition_variable changed_;
  std::vector<std::vector<std::unique_ptr<HardwareQueue>>> queues_;  ///< by GPU
  HardwareQueue legacy_queue_;
  CUstream_st legacy_;
  std::set<cudaStream_t> streams_;
  std::vector<std::size_t> made_streams_;  ///< by GPU
  bool was_asked_ = false;                 ///< a call has come
  bool loads_at_once_ = false;
  std::set<std::string> loaded_;
  std::string loading_;  ///< the kernel for which the context's lock is held; empty: it is free
  std::string deadlock_;
  bool is_stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace troupe::host_cudart
