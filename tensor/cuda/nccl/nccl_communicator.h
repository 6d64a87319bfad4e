#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

#include "tensor/cuda/nccl/nccl_batch.h"
#include "tensor/cuda/nccl/nccl_library.h"

namespace troupe::tensor::cuda {

/// A communicator of NCCL, which never blocks its callers. NCCL allows one thread at a time within
/// one: the compute thread, which starts collectives, and the thread of NcclService, which does all
/// else. The compute thread leaves as soon as the communicator is to end.
class NcclCommunicator {
 public:
  enum class State { starting, ready, failed, ended };

  /// `id` was made by one of the members. `library` outlives this.
  NcclCommunicator(const NcclLibrary& library, std::string name, const ncclUniqueId& id, int size,
                   int member);

  State state() const { return state_.load(std::memory_order_acquire); }
  /// Why it failed or is to end; empty as long as it works. Callable from any thread.
  std::string fault() const;
  int size() const { return size_; }
  int member() const { return member_; }

  // For the compute thread.

  /// Makes the calls as one group on a stream, and returns once NCCL has queued them. Throws
  /// Error{unavailable} if it refuses them or the communicator is to end.
  void queue(cudaStream_t stream, const std::function<void(NcclBatch& batch)>& calls);

  // For the thread of the service.

  /// Goes on with its start, or looks whether it has failed. Returns whether the state changed.
  bool advance();
  /// Makes queue() return, and all that follows fail with `reason`, if nothing has failed before.
  /// Callable from any thread.
  void cancel(const std::string& reason);
  /// Ends its kernels. Blocks while the compute thread is within a call.
  void revoke();
  /// Frees all that NCCL has for it. All communicators of the GPU are revoked before: this waits
  /// for the kernels of all of them.
  void abort();

 private:
  void fail(const std::string& reason);
  void begin();
  ncclResult_t settled();

  const NcclLibrary& library_;
  const std::string name_;
  const ncclUniqueId id_;
  const int size_, member_;
  std::mutex calls_;  // held by who is within a call of NCCL
  ncclComm_t handle_ = nullptr;
  bool has_begun_ = false;
  std::atomic<State> state_{State::starting};
  std::atomic<bool> is_cancelled_{false};
  mutable std::mutex mutex_;  // guards fault_
  std::string fault_;
};

}  // namespace troupe::tensor::cuda
