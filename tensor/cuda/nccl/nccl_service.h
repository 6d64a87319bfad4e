#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tensor/cuda/nccl/device_groups.h"
#include "tensor/cuda/nccl/nccl_communicator.h"

namespace troupe::tensor::cuda {

/// The communicators of a device, and a thread that starts them beside other work, notices that
/// they have failed, and ends them. NCCL frees a communicator only when no kernel of any runs: so
/// all end together, each revoked before the first is freed.
class NcclService {
 public:
  /// The library outlives the service.
  NcclService(const NcclLibrary& library, GroupThreads threads);
  NcclService(const NcclService&) = delete;
  NcclService& operator=(const NcclService&) = delete;
  /// Ends all communicators.
  ~NcclService();

  /// The communicator of these members in this epoch, which all groups of the same members share.
  /// Null if there is none.
  std::shared_ptr<NcclCommunicator> find(std::uint64_t epoch,
                                         const std::vector<std::uint64_t>& members);
  /// Starts one. It ends once nobody but the service has it.
  std::shared_ptr<NcclCommunicator> add(std::uint64_t epoch, std::vector<std::uint64_t> members,
                                        int member, const ncclUniqueId& id);
  /// Ends all communicators that there are. Callable from any thread.
  void abort(const std::string& reason);

  /// Wakes those that wait in wait(). Callable from any thread.
  void notify();
  /// Blocks until `ready` is true, or until `until`, and returns it. `ready` is asked without a
  /// lock of the service, after each notify() and each change of a communicator, and now and then.
  bool wait(const std::function<bool()>& ready, std::chrono::steady_clock::time_point until);

 private:
  struct Kept {
    std::uint64_t epoch;
    std::vector<std::uint64_t> members;
    std::shared_ptr<NcclCommunicator> communicator;
  };
  using Communicators = std::vector<std::shared_ptr<NcclCommunicator>>;

  void loop();
  Communicators take_ending();
  void end(const Communicators& communicators);

  const NcclLibrary& library_;
  const GroupThreads threads_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::uint64_t changes_ = 0;
  std::vector<Kept> all_;
  bool is_aborting_ = false, is_closing_ = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace troupe::tensor::cuda
