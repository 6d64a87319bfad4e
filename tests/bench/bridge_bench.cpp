// Measures an edge into one rank whose tensors come in pieces from two others, and, in turn, one
// edge that carries the same tensors from one of them: three processes, each with a compute thread
// and a UcxNode. Senders write each tensor first, as a stage does.
//
//   bridge_bench BYTES MESSAGES ROUNDS
//
// Prints one JSON line: payload bytes per second at the receiver, by round.

#include <fmt/core.h>

#include <array>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "launch/planner/measuring/measuring_processes.h"
#include "tests/bench/timing.h"

namespace {

using namespace troupe;
using namespace troupe::transport;
using nlohmann::json;

constexpr int kReceiver = 0, kRanks = 3, kSlots = 2;
constexpr int kFanIn = 1, kPlain = 2;  // chunks
constexpr int kWarmUp = 16;
constexpr std::int64_t kHidden = 1024;

std::vector<Edge> edges(std::int64_t rows) {
  std::vector<Edge> all;
  for (const int sender : {1, 2})
    all.push_back({.from = sender,
                   .to = kReceiver,
                   .chunk = kFanIn,
                   .shape = {rows / 2, kHidden},
                   .slots = kSlots,
                   .received = {.first_row = (sender - 1) * rows / 2, .rows = rows}});
  all.push_back(
      {.from = 1, .to = kReceiver, .chunk = kPlain, .shape = {rows, kHidden}, .slots = kSlots});
  return all;
}

class Rank {
 public:
  Rank(int rank, UcxNode& node, std::int64_t rows)
      : rank_(rank), channel_(node.channel()), source_(static_cast<std::size_t>(rows * kHidden)) {
    // With too few cores a polling rank keeps the one it waits for from running.
    if (kRanks > static_cast<int>(std::thread::hardware_concurrency()))
      node.set_spin(std::chrono::microseconds(0));
    std::vector<Edge> own;
    for (const Edge& edge : edges(rows))
      if (edge.from == rank || edge.to == rank) own.push_back(edge);
    channel_.open({.run = 1, .configuration = 1, .rank = rank, .edges = own});
  }

  json answer(const json& order) {
    const int chunk = order.at("chunk"), messages = order.at("messages");
    if (rank_ == kReceiver) return receive(chunk, messages);
    if (chunk == kFanIn || rank_ == 1) send(chunk, messages);
    return nullptr;
  }

 private:
  MessageKey next(int chunk) {
    return {.step = steps_[static_cast<std::size_t>(chunk)]++, .microbatch = 0, .chunk = chunk};
  }

  void send(int chunk, int messages) {
    for (int i = 0; i < kWarmUp + messages; ++i) {
      const MessageKey key = next(chunk);
      const tensor::Tensor buffer = channel_.acquire(key);
      std::memcpy(buffer.data, source_.data(), buffer.num_bytes());
      channel_.send(key, buffer);
    }
    channel_.flush();
  }

  /// Bytes per second after the warm-up.
  double receive(int chunk, int messages) {
    std::size_t bytes = 0;
    const auto take = [&] {
      const MessageKey key = next(chunk);
      bytes += channel_.receive(key).num_bytes();
      channel_.release(key);
    };
    for (int i = 0; i < kWarmUp; ++i) take();
    bytes = 0;
    const double seconds = bench::seconds_of([&] {
      for (int i = 0; i < messages; ++i) take();
    });
    return static_cast<double>(bytes) / seconds;
  }

  const int rank_;
  Channel& channel_;
  const std::vector<float> source_;
  std::array<std::uint64_t, 3> steps_{};  // by chunk
};

void measure(std::int64_t bytes, int messages, int rounds) {
  const std::int64_t rows = bytes / static_cast<std::int64_t>(kHidden * sizeof(float));
  launch::MeasuringProcesses processes(kRanks, [=](int rank, UcxNode& node) {
    const auto self = std::make_shared<Rank>(rank, node, rows);
    return [self](const json& order) { return self->answer(order); };
  });
  json rates{{"fan_in", json::array()}, {"plain", json::array()}};
  for (int round = 0; round < rounds; ++round) {
    for (const auto& [name, chunk] : {std::pair{"fan_in", kFanIn}, {"plain", kPlain}}) {
      const auto answers = processes.ask({{"chunk", chunk}, {"messages", messages}});
      rates[name].push_back(answers.at(kReceiver));
    }
  }
  fmt::print("{}\n", rates.dump());
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() != 3) {
    fmt::print(stderr, "usage: bridge_bench BYTES MESSAGES ROUNDS\n");
    return 64;
  }
  try {
    measure(std::stoll(arguments[0]), std::stoi(arguments[1]), std::stoi(arguments[2]));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bridge_bench: {}\n", error.what());
    return 70;
  }
}
