// Measures an edge between two stages: two processes, each with a compute thread and a UcxNode.
//
//   edge_bench bandwidth BYTES SECONDS   payload bytes per second at the receiver; the sender
//   writes
//                                        each tensor first, as a stage does
//   edge_bench transfer BYTES SECONDS    the same of tensors that nobody writes, as ucx_perftest's
//   edge_bench latency sleep|spin N      one way of 4 KiB, median over N round trips
//   edge_bench unreachable INTERFACE S   for how long calls wait while a peer is connected to that
//                                        does not answer. Two processes that others have started:
//                                        the first prints "ready" once it knows where the other is,
//                                        and goes on with the next line of its input
//
// Prints one JSON line. Links troupe_transport alone; it starts its peer itself. With a number of a
// socket to the peer in EDGE_BENCH_SOCKET, and 0 (sends) or 1 (receives, and prints) in
// EDGE_BENCH_RANK, it is one of two processes that others have started.

#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tensor/errors/error.h"
#include "transport/node/ucx_node.h"

namespace {

using namespace troupe;
using namespace troupe::transport;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kLatencyElements = 4096 / 4;
constexpr int kSlots = 2;
constexpr std::uint64_t kWarmUp = 64;
constexpr int kSender = 0;
constexpr int kReceiver = 1;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The socket between the two processes: for addresses, and to start together.
class Side {
 public:
  explicit Side(int fd) : fd_(fd) {}
  std::string exchange(const std::string& text) {
    if (::send(fd_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
      throw Error(ErrorKind::unavailable, "the other process is gone");
    std::string answer(8192, '\0');
    const ssize_t got = ::recv(fd_, answer.data(), answer.size(), 0);
    if (got <= 0) throw Error(ErrorKind::unavailable, "the other process is gone");
    answer.resize(static_cast<std::size_t>(got));
    return answer;
  }
  bool has_message() const {
    char byte = 0;
    return ::recv(fd_, &byte, 1, MSG_DONTWAIT) == 1;
  }
  void tell() const { [[maybe_unused]] const ssize_t sent = ::send(fd_, "x", 1, 0); }

 private:
  int fd_;
};

std::unique_ptr<UcxNode> join(Side& side, int rank, std::int64_t elements, UcxOptions options) {
  options.environment = troupe::transport::prepare_ucx();
  auto node = UcxNode::create(options);
  node->connect(1 - rank, 1, side.exchange(node->address()));
  const tensor::Shape shape{elements};
  node->channel().open({.run = 1,
                        .configuration = 1,
                        .rank = rank,
                        .edges = {{.from = 0, .to = 1, .chunk = 1, .shape = shape, .slots = kSlots},
                                  {.from = 1,
                                   .to = 0,
                                   .chunk = 0,
                                   .direction = Direction::backward,
                                   .shape = shape,
                                   .slots = kSlots}}});
  side.exchange("ready");
  return node;
}

MessageKey there(std::uint64_t step) {
  return {.step = step, .microbatch = 0, .chunk = 1};
}
MessageKey back(std::uint64_t step) {
  return {.step = step, .microbatch = 0, .chunk = 0, .direction = Direction::backward};
}

/// Sends until the receiver has seen enough. The first element of the last tensor marks it as the
/// last; the rest is written from `source` if that has elements.
void send_stream(Channel& channel, Side& side, const std::vector<float>& source) {
  bool last = false;
  for (std::uint64_t step = 0; !last; ++step) {
    const tensor::Tensor buffer = channel.acquire(there(step));
    if (!source.empty()) std::memcpy(buffer.data, source.data(), buffer.num_bytes());
    last = side.has_message();
    buffer.as<float>()[0] = last ? 1 : 0;
    channel.send(there(step), buffer);
  }
  channel.flush();
}

/// Bytes per second between the first tensor after the warm-up and the end.
double receive_stream(Channel& channel, Side& side, double seconds) {
  Clock::time_point start;
  bool told = false;
  for (std::uint64_t step = 0;; ++step) {
    const tensor::Tensor tensor = channel.receive(there(step));
    const bool last = tensor.as<float>()[0] == 1;
    const std::size_t bytes = tensor.num_bytes();
    channel.release(there(step));
    if (last) return static_cast<double>((step - kWarmUp) * bytes) / seconds_since(start);
    if (step == kWarmUp) start = Clock::now();
    if (step > kWarmUp && !told && seconds_since(start) > seconds) {
      side.tell();
      told = true;
    }
  }
}

void bandwidth(Side& side, int rank, std::int64_t bytes, double seconds, bool writes) {
  const auto node = join(side, rank, bytes / 4, {});
  if (rank == kSender) {
    const std::int64_t written = writes ? bytes / 4 : 0;
    send_stream(node->channel(), side, std::vector<float>(static_cast<std::size_t>(written)));
    side.exchange("done");
    return;
  }
  const double rate = receive_stream(node->channel(), side, seconds);
  side.exchange("done");
  fmt::print(
      "{{\"name\": \"edge_bandwidth\", \"value\": {:.3f}, \"unit\": \"GB/s\", "
      "\"bytes_per_s\": {:.0f}}}\n",
      rate / 1e9, rate);
}

void send_one(Channel& channel, const MessageKey& key) {
  const tensor::Tensor buffer = channel.acquire(key);
  std::memset(buffer.data, 1, buffer.num_bytes());
  channel.send(key, buffer);
}

void receive_one(Channel& channel, const MessageKey& key) {
  channel.receive(key);
  channel.release(key);
}

void latency(Side& side, int rank, UcxOptions options, std::uint64_t rounds) {
  const auto node = join(side, rank, kLatencyElements, options);
  Channel& channel = node->channel();
  std::vector<double> one_way_us;
  one_way_us.reserve(rounds);
  for (std::uint64_t step = 0; step < kWarmUp + rounds; ++step) {
    if (rank == kSender) {
      receive_one(channel, back(step));
      send_one(channel, there(step));
      continue;
    }
    const auto start = Clock::now();
    send_one(channel, back(step));
    receive_one(channel, there(step));
    if (step >= kWarmUp) one_way_us.push_back(seconds_since(start) / 2 * 1e6);
  }
  channel.flush();
  side.exchange("done");
  if (rank == kSender) return;
  const auto middle = one_way_us.begin() + static_cast<std::ptrdiff_t>(rounds / 2);
  std::ranges::nth_element(one_way_us, middle);
  fmt::print(
      "{{\"name\": \"edge_latency\", \"value\": {:.3f}, \"unit\": \"us\", "
      "\"one_way_us\": {:.3f}}}\n",
      *middle, *middle);
}

/// Calls a node over and over, as the thread does that reports what a process waits for.
class Caller {
 public:
  explicit Caller(Channel& channel) : channel_(channel) {}
  /// The longest time that a call has taken, in milliseconds.
  double stop() {
    thread_.request_stop();
    thread_.join();
    return longest_ms_;
  }

 private:
  Channel& channel_;
  double longest_ms_ = 0;
  std::jthread thread_{[this](const std::stop_token& stopped) {
    while (!stopped.stop_requested()) {
      const auto start = Clock::now();
      channel_.counts();
      longest_ms_ = std::max(longest_ms_, seconds_since(start) * 1e3);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }};
};

/// A message to a peer that does not answer, and some seconds in which nothing may wait for it.
void unreachable(Side& side, int rank, const std::string& interface, double seconds) {
  const auto node = UcxNode::create({.environment = prepare_ucx({.interface = interface})});
  const std::string peer = side.exchange(node->address());
  if (rank == kReceiver) {
    side.exchange("done");
    return;
  }
  fmt::print("ready\n");
  std::fflush(stdout);
  std::getchar();
  Caller caller(node->channel());
  const auto start = Clock::now();
  node->connect(kReceiver, 1, peer, false);
  node->channel().open({.run = 1,
                        .configuration = 1,
                        .rank = kSender,
                        .edges = {{.from = kReceiver, .to = kSender, .shape = {1024}}}});
  const double connect_ms = seconds_since(start) * 1e3;
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  fmt::print("{{\"connect_ms\": {:.3f}, \"blocked_ms\": {:.3f}}}\n", connect_ms, caller.stop());
  std::fflush(stdout);
  node->disconnect(kReceiver);
}

void measure(Side& side, int rank, const std::vector<std::string>& arguments) {
  if (arguments.at(0) == "unreachable") {
    unreachable(side, rank, arguments.at(1), std::stod(arguments.at(2)));
  } else if (arguments.at(0) != "latency") {
    const bool writes = arguments.at(0) == "bandwidth";
    bandwidth(side, rank, std::stoll(arguments.at(1)), std::stod(arguments.at(2)), writes);
  } else {
    const bool sleeps = arguments.at(1) == "sleep";
    latency(side, rank, {.spin = std::chrono::microseconds(sleeps ? 0 : 50)},
            std::stoull(arguments.at(2)));
  }
}

/// Starts this program again as rank 0; this process is rank 1 and prints the result.
int run_pair(char** argv, const std::vector<std::string>& arguments) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) return 1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[1]);
    ::setenv("EDGE_BENCH_SOCKET", std::to_string(ends[0]).c_str(), 1);
    ::setenv("EDGE_BENCH_RANK", std::to_string(kSender).c_str(), 1);
    ::execv("/proc/self/exe", argv);
    ::_exit(127);
  }
  ::close(ends[0]);
  Side side(ends[1]);
  measure(side, kReceiver, arguments);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool known =
      arguments.size() == 3 &&
      (arguments[0] == "bandwidth" || arguments[0] == "transfer" || arguments[0] == "unreachable" ||
       (arguments[0] == "latency" && (arguments[1] == "sleep" || arguments[1] == "spin")));
  if (!known) {
    fmt::print(stderr,
               "usage: edge_bench bandwidth|transfer BYTES SECONDS | latency sleep|spin N | "
               "unreachable INTERFACE SECONDS\n");
    return 64;
  }
  try {
    const char* socket = std::getenv("EDGE_BENCH_SOCKET");
    const char* rank = std::getenv("EDGE_BENCH_RANK");
    if (!socket || !rank) return run_pair(argv, arguments);
    Side side(std::atoi(socket));
    measure(side, std::atoi(rank), arguments);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "edge_bench: {}\n", error.what());
    return 70;
  }
}
