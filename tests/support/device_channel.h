#pragma once

#include <functional>
#include <utility>

#include "transport/edges/channel.h"

namespace troupe::test {

/// A channel all of whose configurations compute with a device, unless they name another one.
class DeviceChannel final : public transport::Channel {
 public:
  using Key = transport::MessageKey;
  /// `channel` is asked each time, because a rank may get another one.
  DeviceChannel(std::function<transport::Channel&()> channel, tensor::Device& device,
                transport::EdgeChoice choice)
      : channel_(std::move(channel)), device_(device), choice_(choice) {}

  void open(const transport::ConfigurationSpec& spec) override {
    transport::ConfigurationSpec with = spec;
    if (!with.device) with.device = &device_;
    with.choice = choice_;
    channel_().open(with);
  }
  void set_deadline(std::chrono::milliseconds deadline) override {
    channel_().set_deadline(deadline);
  }
  tensor::Tensor acquire(const Key& key) override { return channel_().acquire(key); }
  void send(const Key& key, const tensor::Tensor& buffer) override { channel_().send(key, buffer); }
  void send(const Key& key, const tensor::Tensor& buffer, tensor::Event& written) override {
    channel_().send(key, buffer, written);
  }
  tensor::Tensor receive(const Key& key) override { return channel_().receive(key); }
  bool ready(const transport::Needs& needs) override { return channel_().ready(needs); }
  void wait_for_either(const transport::Needs& first, const transport::Needs& second) override {
    channel_().wait_for_either(first, second);
  }
  void release(const Key& key) override { channel_().release(key); }
  void release(const Key& key, tensor::Event& read) override { channel_().release(key, read); }
  void settle() override { channel_().settle(); }
  std::shared_ptr<transport::SlotMemory> keep(const Key& key) override {
    return channel_().keep(key);
  }
  void free_kept(const Key& key) override { channel_().free_kept(key); }
  void flush() override { channel_().flush(); }
  std::optional<transport::Wait> waiting() const override { return channel_().waiting(); }
  transport::ChannelCounts counts() const override { return channel_().counts(); }
  void close(const std::string& reason) override { channel_().close(reason); }

 private:
  const std::function<transport::Channel&()> channel_;
  tensor::Device& device_;
  const transport::EdgeChoice choice_;
};

}  // namespace troupe::test
