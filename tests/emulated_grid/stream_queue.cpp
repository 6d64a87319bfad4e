#include "tests/emulated_grid/stream_queue.h"

#include <utility>

namespace troupe::emulated_grid {

StreamQueue::~StreamQueue() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StreamQueue::run(Work work) {
  {
    const std::lock_guard lock(mutex_);
    if (!waiting_.empty()) return push(std::move(work));
  }
  work();
}

void StreamQueue::run_apart(Work work) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  push(std::move(work));
}

void StreamQueue::push(Work work) {
  waiting_.push_back(std::move(work));
  changed_.notify_all();
}

void StreamQueue::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.empty(); });
  if (fault_) std::rethrow_exception(std::exchange(fault_, nullptr));
}

void StreamQueue::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !waiting_.empty() || is_ending_; });
    if (waiting_.empty()) return;
    Work work = std::move(waiting_.front());
    lock.unlock();
    std::exception_ptr fault;
    try {
      work();
    } catch (...) {
      fault = std::current_exception();
    }
    work = nullptr;  // what it held ends before the queue is empty
    lock.lock();
    if (!fault_) fault_ = fault;
    waiting_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace troupe::emulated_grid
