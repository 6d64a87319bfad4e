#include "transport/edges/device_work.h"

#include <chrono>
#include <utility>

#include "tensor/device/ops.h"

namespace troupe::transport {
namespace {

/// How often the thread asks whether the device has failed, which would reach no event any more.
constexpr std::chrono::seconds kHealthCheck{1};

}  // namespace

DeviceWork::DeviceWork(tensor::Device& device, Events& events)
    : device_(device), events_(events), streams_{device.make_stream(), device.make_stream()} {
  thread_ = std::thread([this] { run(); });
}

DeviceWork::~DeviceWork() {
  drain();
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  more_.notify_one();
  thread_.join();
}

void DeviceWork::reserve(std::size_t copies) {
  const std::lock_guard lock(mutex_);
  for (auto* list : {&queued_, &under_way_, &asked_}) list->reserve(copies);
}

void DeviceWork::copy(DeviceCopy& copy) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    copy.work = this;
    queued_.push_back(&copy);
  }
  more_.notify_one();
}

void DeviceWork::call(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    calls_.push_back(std::move(call));
  }
  more_.notify_one();
}

void DeviceWork::drain() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return !has_work() && under_way_.empty() && busy_ == 0; });
}

void DeviceWork::throw_if_failed() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

void DeviceWork::run() {
  std::unique_lock lock(mutex_);
  while (has_work() || !ends_) {
    if (!has_work() && under_way_.empty()) {
      more_.wait(lock);
      continue;
    }
    if (!has_work() && more_.wait_for(lock, kHealthCheck) != std::cv_status::timeout) continue;
    std::function<void()> call;
    DeviceCopy* copy = nullptr;
    if (!calls_.empty()) {
      call = std::move(calls_.front());
      calls_.erase(calls_.begin());
    } else if (!queued_.empty()) {
      copy = queued_.front();
      queued_.erase(queued_.begin());
      under_way_.push_back(copy);
    }
    if (!call && !copy) asked_ = under_way_;
    ++busy_;
    lock.unlock();
    try {
      call ? call() : copy ? start(*copy) : ask_copies();
      call = nullptr;  // what it holds may be the device's
    } catch (...) {
      fail(std::current_exception());
    }
    lock.lock();
    --busy_;
    tell_if_idle();
  }
}

void DeviceWork::start(DeviceCopy& copy) {
  tensor::Stream& stream = *streams_[static_cast<std::size_t>(copy.way)];
  device_.ops().copy(stream, copy.from, copy.to);
  copy.done->record(stream);
  copy.done->on_reached(&DeviceWork::on_reached, &copy);
}

/// Throws if the device has failed.
void DeviceWork::ask_copies() {
  for (const DeviceCopy* copy : asked_) static_cast<void>(copy->done->done());
}

void DeviceWork::fail(const std::exception_ptr& failure) {
  std::vector<std::function<void()>> calls;  // what they hold may be the device's
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
    calls.swap(calls_);
    queued_.clear();
    under_way_.clear();
  }
  events_.on_work_failed();
}

void DeviceWork::on_reached(void* argument) {
  auto& copy = *static_cast<DeviceCopy*>(argument);
  DeviceWork& work = *copy.work;
  {
    const std::lock_guard lock(work.mutex_);
    if (std::erase(work.under_way_, &copy) == 0) return;  // given up: the device has failed
    ++work.busy_;
  }
  work.events_.on_copied(copy);
  const std::lock_guard lock(work.mutex_);
  --work.busy_;
  work.tell_if_idle();
}

void DeviceWork::tell_if_idle() {
  if (!has_work() && under_way_.empty() && busy_ == 0) idle_.notify_all();
}

}  // namespace troupe::transport
