#include "stages/inference/shard_threads.h"

#include <algorithm>

#include "tensor/cpu/ops/ordered_reduction.h"
#include "tensor/errors/error.h"

namespace troupe::stages {

ShardThreads::ShardThreads(int shards)
    : parts_(static_cast<std::size_t>(shards)), pieces_(parts_.size()) {
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

void ShardThreads::run(const std::function<void(int)>& job) {
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    error_ = nullptr;
    running_ = size() - 1;
    here_ = 0;
    ++round_;
  }
  changed_.notify_all();
  call(0);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return running_ == 0; });
  if (error_) std::rethrow_exception(error_);
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
  changed_.notify_all();
}

void ShardThreads::meet() {
  std::unique_lock lock(mutex_);
  const std::size_t meeting = meeting_;
  if (++here_ == size()) {
    here_ = 0;
    ++meeting_;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return meeting_ != meeting || error_; });
  if (meeting_ == meeting) throw Error(ErrorKind::internal, "another shard has failed");
}

void ShardThreads::add(int shard, const tensor::Tensor& x) {
  const auto me = static_cast<std::size_t>(shard);
  parts_[me] = x;
  meet();
  // Each shard adds a piece of the elements, in the memory of the first, and gives it to all.
  const std::size_t elements = static_cast<std::size_t>(x.num_elements()), shards = parts_.size();
  const std::size_t begin = elements * me / shards, count = elements * (me + 1) / shards - begin;
  const std::size_t offset = begin * size_of(x.dtype), bytes = count * size_of(x.dtype);
  std::vector<const std::byte*>& pieces = pieces_[me];
  pieces.clear();
  for (const tensor::Tensor& part : parts_) pieces.push_back(part.as<std::byte>() + offset);
  std::byte* const sum = parts_.front().as<std::byte>() + offset;
  tensor::ordered_reduction(pieces, sum, count, x.dtype, tensor::Reduction::sum);
  for (std::size_t other = 1; other < shards; ++other)
    std::copy_n(sum, bytes, parts_[other].as<std::byte>() + offset);
  meet();
}

}  // namespace troupe::stages
