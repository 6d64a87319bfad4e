#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "tensor/device/attention.h"
#include "tensor/device/linear.h"
#include "tests/support/async_device.h"
#include "tests/support/held_link.h"

namespace troupe::test {

/// An asynchronous device that counts the calls of it and of its events, and those among them that
/// came from a thread which held a link's lock.
class WatchedDevice final : public tensor::Device {
 public:
  explicit WatchedDevice(const HeldLink& link) : link_(link) {}

  int calls() const { return calls_; }
  int calls_with_lock() const { return calls_with_lock_; }
  /// From now on events that are asked say that the device has failed.
  void fail() { has_failed_ = true; }

  tensor::Buffer allocate(std::size_t bytes, tensor::MemoryKind kind) override {
    note_call();
    if (kind == tensor::MemoryKind::host) return async_.allocate(bytes, kind);
    // In front of the memory stands whose it is, for its deleter.
    constexpr std::size_t kBytesInFront = 256;
    const std::size_t rounded = (bytes + kBytesInFront - 1) / kBytesInFront * kBytesInFront;
    auto* const all =
        static_cast<std::byte*>(std::aligned_alloc(kBytesInFront, kBytesInFront + rounded));
    std::memset(all, 0, kBytesInFront + rounded);
    *reinterpret_cast<WatchedDevice**>(all) = this;
    return {all + kBytesInFront, bytes, kind, [](void* data, std::size_t) {
              std::byte* const begin = static_cast<std::byte*>(data) - kBytesInFront;
              (*reinterpret_cast<WatchedDevice**>(begin))->note_call();
              std::free(begin);
            }};
  }
  std::unique_ptr<tensor::Stream> make_stream() override {
    note_call();
    return async_.make_stream();
  }
  std::unique_ptr<tensor::Event> make_event() override {
    note_call();
    return std::make_unique<WatchedEvent>(*this, async_.make_event());
  }
  std::unique_ptr<tensor::Event> make_timed_event() override { return make_event(); }
  bool host_reads_memory() const override { return false; }
  tensor::Ops& ops() override {
    note_call();
    return async_.ops();
  }
  std::unique_ptr<tensor::Linear> make_linear(const tensor::LinearShape& shape) override {
    return async_.make_linear(shape);
  }
  std::unique_ptr<tensor::Attention> make_attention(const tensor::AttentionShape& shape) override {
    return async_.make_attention(shape);
  }
  std::unique_ptr<tensor::CachedAttention> make_cached_attention(
      const tensor::CachedAttentionShape& shape) override {
    return async_.make_cached_attention(shape);
  }

 private:
  class WatchedEvent final : public tensor::Event {
   public:
    WatchedEvent(WatchedDevice& device, std::unique_ptr<tensor::Event> event)
        : device_(device), event_(std::move(event)) {}
    void record(tensor::Stream& stream) override { watched().record(stream); }
    void wait(tensor::Stream& stream) override { watched().wait(stream); }
    void synchronize() override { watched().synchronize(); }
    bool done() const override { return watched().done(); }
    void on_reached(void (*call)(void*), void* argument) override {
      watched().on_reached(call, argument);
    }
    double reached_s() const override { return watched().reached_s(); }

   private:
    tensor::Event& watched() const {
      device_.note_call();
      if (device_.has_failed_) throw Error(ErrorKind::internal, "the watched device has failed");
      return *event_;
    }

    WatchedDevice& device_;
    const std::unique_ptr<tensor::Event> event_;
  };

  void note_call() {
    ++calls_;
    if (link_.is_held()) ++calls_with_lock_;
  }

  const HeldLink& link_;
  std::atomic<int> calls_{0}, calls_with_lock_{0};
  std::atomic<bool> has_failed_{false};
  AsyncDevice async_{1};
};

}  // namespace troupe::test
