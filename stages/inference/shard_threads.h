#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "tensor/values/tensor.h"

namespace troupe::stages {

/// The shards of a model in one process, each a thread that computes in host memory, and the sums
/// over them.
class ShardThreads {
 public:
  explicit ShardThreads(int shards);
  ShardThreads(const ShardThreads&) = delete;
  ~ShardThreads();

  int size() const { return static_cast<int>(parts_.size()); }

  /// Calls job(shard) on the thread of each shard, which is the same for all jobs (shard 0 is the
  /// caller's), and returns once all have ended. Throws what the first of them has thrown; then the
  /// others' calls of add() throw too, because a sum would never be complete.
  void run(const std::function<void(int shard)>& job);

  /// By the job of each shard: x = the sum of the shards' x, in ascending order of shards, so that
  /// all have the same bits.
  void add(int shard, const tensor::Tensor& x);

 private:
  void work(int shard);
  void call(int shard);
  /// Blocks until all shards have come here. Throws Error{internal} if one has failed.
  void meet();

  std::vector<tensor::Tensor> parts_;                  ///< by shard, of the sum under way
  std::vector<std::vector<const std::byte*>> pieces_;  ///< by shard that adds one, of each part
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(int)>* job_ = nullptr;
  std::size_t round_ = 0;  ///< of run()
  int running_ = 0;        ///< shards beside the caller's that have not ended the job
  bool ends_ = false;
  std::exception_ptr error_;  ///< the first of the job
  std::size_t meeting_ = 0;
  int here_ = 0;                      ///< shards that have come to the meeting
  std::vector<std::thread> threads_;  ///< last: they use the rest
};

}  // namespace troupe::stages
