#include "tensor/cpu/cpu_device.h"

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.h>

#include <chrono>
#include <new>
#include <utility>

#include "tensor/cpu/attention/cpu_attention.h"
#include "tensor/cpu/attention/cpu_cached_attention.h"
#include "tensor/cpu/products/cpu_grouped_linear.h"
#include "tensor/cpu/products/cpu_linear.h"
#include "tensor/cpu/products/thread_team.h"
#include "tensor/errors/error.h"

namespace troupe::tensor {
namespace {

class CpuStream final : public Stream {
 public:
  explicit CpuStream(Device& device) : device_(device) {}
  Device& device() override { return device_; }
  void synchronize() override {}

 private:
  Device& device_;
};

class CpuEvent : public Event {
 public:
  void record(Stream&) override {}
  void wait(Stream&) override {}
  void synchronize() override {}
  bool done() const override { return true; }
  void on_reached(void (*call)(void*), void* argument) override { call(argument); }
  double reached_s() const override { assert_failed("the event is timed", __FILE__, __LINE__); }
};

class TimedCpuEvent final : public CpuEvent {
 public:
  void record(Stream&) override { reached_ = std::chrono::steady_clock::now(); }
  double reached_s() const override {
    return std::chrono::duration<double>(reached_.time_since_epoch()).count();
  }

 private:
  std::chrono::steady_clock::time_point reached_;
};

}  // namespace

CpuDevice::CpuDevice(int threads) : threads_(threads), ops_(*this, threads) {
  if (threads < 1) {
    throw Error(ErrorKind::manifest,
                fmt::format("{} threads per rank; at least 1 is needed", threads));
  }
  require_openmp_threads(threads);
}

Buffer CpuDevice::allocate(std::size_t bytes, MemoryKind kind) {
  try {
    {
      const std::lock_guard lock(mutex_);
      if (reserve_)
        if (auto buffer = reserve_->take(bytes, kind)) return std::move(*buffer);
    }
    return allocate_host(bytes, kind);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::internal, fmt::format("cannot allocate {} bytes of memory", bytes));
  }
}

void CpuDevice::reserve(std::size_t bytes) {
  const auto replace = [this](std::unique_ptr<HostReserve> next) {  // slow calls without the lock
    const std::lock_guard lock(mutex_);
    reserve_.swap(next);
    return next;
  };
  replace(nullptr).reset();
  if (bytes > 0) replace(std::make_unique<HostReserve>(bytes));
}

std::size_t CpuDevice::give_back(const Buffer& memory) {
  return give_back_pages(memory);
}

void CpuDevice::bring_back(const Buffer& memory) {
  if (memory.bytes() > 0) make_present(memory.data(), memory.bytes());
}

std::unique_ptr<Stream> CpuDevice::make_stream() {
  return std::make_unique<CpuStream>(*this);
}

std::unique_ptr<Event> CpuDevice::make_event() {
  return std::make_unique<CpuEvent>();
}

std::unique_ptr<Event> CpuDevice::make_timed_event() {
  return std::make_unique<TimedCpuEvent>();
}

std::unique_ptr<Linear> CpuDevice::make_linear(const LinearShape& shape) {
  return std::make_unique<CpuLinear>(shape, threads_);
}

std::unique_ptr<GroupedLinear> CpuDevice::make_grouped_linear(const GroupedLinearShape& shape) {
  return std::make_unique<CpuGroupedLinear>(shape, threads_);
}

std::unique_ptr<Attention> CpuDevice::make_attention(const AttentionShape& shape) {
  return std::make_unique<CpuAttention>(shape, threads_);
}

std::unique_ptr<CachedAttention> CpuDevice::make_cached_attention(
    const CachedAttentionShape& shape) {
  return std::make_unique<CpuCachedAttention>(shape, threads_);
}

std::unique_ptr<Device> make_cpu_device(int threads) {
  return std::make_unique<CpuDevice>(threads);
}

std::string one_dnn_version() {
  const dnnl_version_t* version = dnnl_version();
  return std::to_string(version->major) + '.' + std::to_string(version->minor) + '.' +
         std::to_string(version->patch);
}

}  // namespace troupe::tensor
