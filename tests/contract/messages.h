#pragma once

#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "transport/edges/channel.h"

// Messages whose every element follows from their key, for tests of channels.

namespace troupe::test {

using transport::Channel;
using transport::Direction;
using transport::Edge;
using transport::MessageKey;
using transport::Needs;

constexpr std::uint64_t kRun = 4711;

/// Activations from rank 0 into chunk 1 at rank 1, and their gradients back.
inline std::vector<Edge> two_way(tensor::Shape shape, int slots) {
  return {{.from = 0, .to = 1, .chunk = 1, .shape = shape, .slots = slots},
          {.from = 1,
           .to = 0,
           .chunk = 0,
           .direction = Direction::backward,
           .shape = shape,
           .slots = slots}};
}

inline MessageKey forth(std::uint64_t step, int microbatch = 0) {
  return {.step = step, .microbatch = microbatch, .chunk = 1};
}
inline MessageKey back(std::uint64_t step, int microbatch = 0) {
  return {.step = step, .microbatch = microbatch, .chunk = 0, .direction = Direction::backward};
}

/// Every element of a message follows from its key.
inline float value_of(const MessageKey& key, std::int64_t element) {
  return static_cast<float>(key.step * 1000 + static_cast<std::uint64_t>(key.microbatch) * 10 +
                            static_cast<std::uint64_t>(key.direction)) +
         static_cast<float>(element % 1024) / 1024;
}

inline void send_message(Channel& channel, const MessageKey& key) {
  const tensor::Tensor buffer = channel.acquire(key);
  for (std::int64_t i = 0; i < buffer.num_elements(); ++i) buffer.as<float>()[i] = value_of(key, i);
  channel.send(key, buffer);
}

inline bool holds_message(const tensor::Tensor& tensor, const MessageKey& key) {
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i)
    if (tensor.as<float>()[i] != value_of(key, i)) return false;
  return true;
}

/// Receives a message, compares every element and releases it.
inline bool receive_message(Channel& channel, const MessageKey& key) {
  const bool ok = holds_message(channel.receive(key), key);
  channel.release(key);
  return ok;
}

/// Runs `body` in a thread of its own, as a compute thread; get() rethrows what it threw.
template <typename Body>
auto runner(Body body) {
  return std::async(std::launch::async, std::move(body));
}

/// Waits until another thread has made ready() true.
template <typename Ready>
void until(Ready ready) {
  while (!ready()) std::this_thread::yield();
}

inline bool waits_for(Channel& channel, const std::string& text) {
  const auto wait = channel.waiting();
  return wait && wait->what.find(text) != std::string::npos;
}

}  // namespace troupe::test
