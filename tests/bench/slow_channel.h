#pragma once

#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "transport/edges/channel.h"

namespace troupe::bench {

/// A channel whose messages take `latency` longer, for stages whose tensors mean nothing: the
/// sender writes the time of arrival into them, and the receiver does not see a message before that
/// time. Counts how long its compute thread stood still for messages on their way.
class SlowChannel final : public transport::Channel {
 public:
  using Clock = std::chrono::steady_clock;
  using Key = transport::MessageKey;
  /// `waits`: send() returns only when the message has arrived, as if nothing could be sent during
  /// computation.
  SlowChannel(transport::Channel& fast, Clock::duration latency, bool waits)
      : fast_(fast), latency_(latency), waits_(waits) {}

  double exposed_s() const { return std::chrono::duration<double>(exposed_).count(); }

  tensor::Tensor acquire(const Key& key) override { return fast_.acquire(key); }
  void send(const Key& key, const tensor::Tensor& buffer) override {
    const auto now = Clock::now();
    std::memcpy(buffer.data, &now, sizeof now);
    fast_.send(key, buffer);
    if (waits_) stand_still(now, now + latency_);
  }
  void send(const Key& key, const tensor::Tensor& buffer, tensor::Event&) override {
    send(key, buffer);  // the stages of these measurements run on no device
  }
  tensor::Tensor receive(const Key& key) override {
    const auto begin = Clock::now();
    const tensor::Tensor message = fast_.receive(key);
    stand_still(std::max(begin, sent_at(message)), due(message));
    return message;
  }
  bool ready(const transport::Needs& needs) override {
    return fast_.ready(needs) &&
           (!needs.message || due(fast_.receive(*needs.message)) <= Clock::now());
  }
  void wait_for_either(const transport::Needs& first, const transport::Needs& second) override {
    const auto begin = Clock::now();
    while (!ready(first) && !ready(second)) {
      fast_.wait_for_either(first, second);
      auto soonest = Clock::time_point::max();
      for (const auto* needs : {&first, &second})
        if (fast_.ready(*needs)) soonest = std::min(soonest, due(fast_.receive(*needs->message)));
      stand_still(std::max(begin, soonest - latency_), soonest);
    }
  }

  void open(const transport::ConfigurationSpec& spec) override { fast_.open(spec); }
  void set_deadline(std::chrono::milliseconds deadline) override { fast_.set_deadline(deadline); }
  void release(const Key& key) override { fast_.release(key); }
  void release(const Key& key, tensor::Event& read) override { fast_.release(key, read); }
  void settle() override { fast_.settle(); }
  std::shared_ptr<transport::SlotMemory> keep(const Key& key) override { return fast_.keep(key); }
  void free_kept(const Key& key) override { fast_.free_kept(key); }
  void flush() override { fast_.flush(); }
  std::optional<transport::Wait> waiting() const override { return fast_.waiting(); }
  transport::ChannelCounts counts() const override { return fast_.counts(); }
  void close(const std::string& reason) override { fast_.close(reason); }

 private:
  static Clock::time_point sent_at(const tensor::Tensor& message) {
    Clock::time_point time;
    std::memcpy(&time, message.data, sizeof time);
    return time;
  }
  Clock::time_point due(const tensor::Tensor& message) const {
    return waits_ ? sent_at(message) : sent_at(message) + latency_;
  }
  void stand_still(Clock::time_point from, Clock::time_point until) {
    if (until <= Clock::now()) return;
    std::this_thread::sleep_until(until);
    exposed_ += until - from;
  }

  transport::Channel& fast_;
  const Clock::duration latency_;
  const bool waits_;
  Clock::duration exposed_{};
};

}  // namespace troupe::bench
