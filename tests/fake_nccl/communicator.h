#pragma once

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/fake_nccl/fake_nccl.h"
#include "tests/fake_nccl/gpu.h"
#include "tests/fake_nccl/kernel.h"
#include "tests/fake_nccl/script.h"
#include "tests/fake_nccl/segment.h"

/// A rank's end of a communicator.
struct ncclComm {
 public:
  ncclComm(int rank, int size, const ncclUniqueId& id);
  ~ncclComm();

  /// What ncclCommGetAsyncError tells. Goes on with what is in progress.
  ncclResult_t poll();
  /// Takes the calls of a group; they are launched once poll() has told that it is over.
  ncclResult_t queue(cudaStream_t stream, const std::vector<troupe::fake_nccl::Call>& calls);
  void revoke() { is_revoked = true; }
  /// Ends it, which takes for ever while another thread is inside or a kernel of the GPU runs.
  void abort();
  ncclResult_t fail(ncclResult_t with, const std::string& why);
  const char* error_text() const { return error_text_.c_str(); }

  const int size;
  std::atomic<bool> is_inside{false};  ///< a thread is within a call
  std::atomic<bool> is_revoked{false};

 private:
  struct Launched;
  struct Group {
    cudaStream_t stream;
    std::vector<troupe::fake_nccl::Call> calls;
  };

  ncclResult_t start();
  void launch(const Group& group);
  void tell_of(const troupe::fake_nccl::Gpu::Launch& launch,
               const std::vector<troupe::fake_nccl::Gpu::Launch>& ahead);
  void run(Launched& launched);
  bool take_slot(const Launched& launched);
  void find_deadlock(const Launched& launched);

  const int rank_;
  const ncclUniqueId id_;
  const troupe::fake_nccl::Script script_;
  troupe::fake_nccl::Segment* segment_ = nullptr;
  bool has_started_ = false, has_memory_ = false;
  int polls_left_;
  std::vector<Group> groups_;  ///< not launched
  std::uint64_t launches_ = 0;
  std::atomic<int> under_way_{0};
  std::shared_ptr<troupe::fake_nccl::Gpu> gpu_;
  std::mutex mutex_;  // of what sets the error
  std::atomic<ncclResult_t> error_{ncclSuccess};
  std::string error_text_;  ///< written before error_
};

/// Given by the test, once.
extern FakeNcclStreams fake_nccl_streams;
