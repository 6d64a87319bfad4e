#pragma once

#include <memory>
#include <vector>

#include "tensor/device/ops.h"
#include "tests/contract/messages.h"
#include "tests/support/test_device.h"

namespace troupe::test {

/// What one rank computes with: ops that make messages from pinned memory, and that read them.
class DeviceRank {
 public:
  /// For messages of at most so many elements.
  DeviceRank(std::uint64_t seed, std::int64_t elements)
      : device_(seed, 1, {}, HostMemory::pinned),
        stream_(device_.make_stream()),
        bytes_(static_cast<std::size_t>(elements) * sizeof(float)),
        host_(device_.allocate(2 * kRoom * bytes_, tensor::MemoryKind::pinned)) {
    for (std::size_t i = 0; i < 2 * kRoom; ++i) events_.push_back(device_.make_event());
  }
  tensor::Device& device() { return device_; }

  /// Sends a message, or elements of it from `first`.
  void send(Channel& channel, const MessageKey& key, std::int64_t first = 0) {
    const tensor::Tensor buffer = channel.acquire(key);
    const std::size_t place = next();
    const tensor::Tensor from = memory(place, buffer.shape);
    for (std::int64_t i = 0; i < from.num_elements(); ++i)
      from.as<float>()[i] = value_of(key, first + i);
    device_.ops().copy(*stream_, from, buffer);
    events_[place]->record(*stream_);
    channel.send(key, buffer, *events_[place]);
  }
  /// Whether a message comes as it was sent, or elements of it from `first`.
  bool receive(Channel& channel, const MessageKey& key, std::int64_t first = 0) {
    const tensor::Tensor message = channel.receive(key);
    const std::size_t place = next();
    const tensor::Tensor to = memory(place, message.shape);
    device_.ops().copy(*stream_, message, to);
    events_[place]->record(*stream_);
    channel.release(key, *events_[place]);
    events_[place]->synchronize();
    for (std::int64_t i = 0; i < to.num_elements(); ++i)
      if (to.as<float>()[i] != value_of(key, first + i)) return false;
    return true;
  }
  /// Ends a configuration as a worker does.
  void end(Channel& channel) {
    channel.close("the configuration has ended");
    stream_->synchronize();
    channel.settle();
  }

 private:
  static constexpr std::size_t kRoom = 16;
  tensor::Tensor memory(std::size_t place, const tensor::Shape& shape) const {
    return host_.view(tensor::DType::f32, shape, place * bytes_);
  }
  /// Memory and an event whose last use is over.
  std::size_t next() {
    const std::size_t place = used_++ % events_.size();
    events_[place]->synchronize();
    return place;
  }

  AsyncDevice device_;
  const std::unique_ptr<tensor::Stream> stream_;
  const std::size_t bytes_;
  const tensor::Buffer host_;
  std::vector<std::unique_ptr<tensor::Event>> events_;
  std::size_t used_ = 0;
};

}  // namespace troupe::test
