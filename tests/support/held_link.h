#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "transport/edges/link.h"

namespace troupe::test {

/// A link that knows whether the calling thread holds its lock. Its peers take everything at once
/// and never answer.
class HeldLink final : public transport::Link {
 public:
  /// The events of the channel on this link.
  void report_to(transport::LinkEvents& events) { events_ = &events; }
  bool is_held() const { return holder_ == std::this_thread::get_id(); }

  void lock() override {
    mutex_.lock();
    holder_ = std::this_thread::get_id();
  }
  void unlock() override {
    holder_ = std::thread::id();
    mutex_.unlock();
  }
  void wait(std::unique_lock<Link>&, transport::Clock::time_point deadline) override {
    std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
    holder_ = std::thread::id();
    // At most an hour, on which no clock overflows.
    const auto limit = transport::Clock::now() + std::chrono::hours(1);
    changed_.wait_until(lock, std::min(deadline, limit));
    holder_ = std::this_thread::get_id();
    lock.release();
  }
  void notify() override { changed_.notify_all(); }
  bool shares_memory_with(int) override { return false; }
  std::shared_ptr<transport::SlotMemory> allocate(int, std::size_t bytes) override {
    return transport::make_private_slots(bytes);
  }
  std::unique_ptr<transport::MappedSlots> map(int, const transport::SegmentName&,
                                              std::size_t) override {
    return nullptr;
  }
  void send(int, transport::OutgoingTensor& tensor) override { events_->on_departed(tensor); }
  void send_control(int, const transport::Header&) override {}

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<std::thread::id> holder_{};
  transport::LinkEvents* events_ = nullptr;
};

}  // namespace troupe::test
