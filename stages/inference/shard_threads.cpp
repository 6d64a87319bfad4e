#include "stages/inference/shard_threads.h"

#include "tensor/cpu/local_group.h"

namespace troupe::stages {

ShardThreads::ShardThreads(int shards) : groups_(static_cast<std::size_t>(shards)) {
  make_group();
  for (int shard = 1; shard < shards; ++shard)
    threads_.emplace_back([this, shard] { work(shard); });
}

ShardThreads::~ShardThreads() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ShardThreads::make_group() {
  members_ = tensor::make_local_group(size());
  for (std::size_t shard = 0; shard < groups_.size(); ++shard)
    groups_[shard].forward = members_[shard].get();
}

void ShardThreads::run(const std::function<void(int)>& job) {
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    error_ = nullptr;
    running_ = size() - 1;
    ++round_;
  }
  changed_.notify_all();
  call(0);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return running_ == 0; });
  if (!error_) return;
  make_group();
  std::rethrow_exception(error_);
}

void ShardThreads::work(int shard) {
  for (std::size_t seen = 0;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ends_ || round_ != seen; });
    if (ends_) return;
    seen = round_;
    lock.unlock();
    call(shard);
    lock.lock();
    if (--running_ == 0) changed_.notify_all();
  }
}

void ShardThreads::call(int shard) try { (*job_)(shard); } catch (...) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::current_exception();
  members_[static_cast<std::size_t>(shard)]->abort("another shard has failed");
}

}  // namespace troupe::stages
