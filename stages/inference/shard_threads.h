#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tensor/parallel/tensor_parallel.h"

namespace troupe::stages {

/// The shards of a model in one process, each a thread that computes in host memory, and a member
/// of a group with the others.
class ShardThreads {
 public:
  explicit ShardThreads(int shards);
  ShardThreads(const ShardThreads&) = delete;
  ~ShardThreads();

  int size() const { return static_cast<int>(groups_.size()); }
  /// What the layers of a shard call collectives of, in jobs. Its backward is null.
  const tensor::TensorParallelGroups& groups(int shard) const {
    return groups_[static_cast<std::size_t>(shard)];
  }

  /// Calls job(shard) on the thread of each shard, which is the same for all jobs (shard 0 is the
  /// caller's), and returns once all have ended. Throws what the first of them has thrown; then the
  /// others' collectives throw too, because they would never be complete. The next job has a new
  /// group.
  void run(const std::function<void(int shard)>& job);

 private:
  void work(int shard);
  void call(int shard);
  void make_group();

  std::vector<std::unique_ptr<tensor::ProcessGroup>> members_;
  std::vector<tensor::TensorParallelGroups> groups_;  ///< of each member
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(int)>* job_ = nullptr;
  std::size_t round_ = 0;  ///< of run()
  int running_ = 0;        ///< shards beside the caller's that have not ended the job
  bool ends_ = false;
  std::exception_ptr error_;          ///< the first of the job
  std::vector<std::thread> threads_;  ///< last: they use the rest
};

}  // namespace troupe::stages
