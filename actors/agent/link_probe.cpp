#include "actors/agent/link_probe.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "actors/agent/probe_port.h"
#include "actors/security/sockets.h"

namespace troupe::actors {
namespace {

using Clock = std::chrono::steady_clock;

/// Ways that are tried at a time.
constexpr std::size_t kAtATime = 32;
/// How late a request to stop may be noticed.
constexpr std::chrono::milliseconds kSlice{50};
constexpr int kRoundTrips = 5;
/// The first payload. It takes many packets of full size, which a path that drops large ones holds
/// back.
constexpr std::uint32_t kFirstBytes = 64 << 10;
/// How long the second one may take by the speed of the first.
constexpr double kBurstS = 0.03;

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

std::int64_t day_ns() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The end at this host of one way.
class Way {
 public:
  Way(const ProbeTarget& target, const ProbeManner& manner, std::stop_token stop)
      : target_(target), manner_(manner), stop_(std::move(stop)) {
    found_.host = target.host;
    found_.to = address_text(target.address, target.port);
  }

  /// Connects, and measures the round trip.
  void open();
  /// Measures bytes per second, if the way is open.
  void measure();
  LinkProbe found() const { return found_; }

 private:
  bool connect();
  /// Sends a message and receives its answer. How long that took; none if the way is broken.
  std::optional<double> exchange(std::uint32_t payload);
  bool receive_answer(std::string& answer);
  void take_time(const std::string& answer, std::int64_t sent_ns, double took_s);
  bool send_all(const char* data, std::size_t bytes, std::size_t repeated = 1);
  bool wait(short events);
  bool broken(std::string fault);

  const ProbeTarget& target_;
  const ProbeManner& manner_;
  const std::stop_token stop_;
  LinkProbe found_;
  Socket socket_;
};

/// Notes what is wrong, the first time. False.
bool Way::broken(std::string fault) {
  if (found_.fault.empty()) found_.fault = std::move(fault);
  return false;
}

/// Waits until the socket is ready. What is late itself looks once more: time may have passed
/// without it, as for a process that was stopped.
bool Way::wait(short events) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(manner_.patience_s));
  while (!stop_.stop_requested()) {
    const bool is_last = Clock::now() + kSlice > deadline;
    pollfd ready{.fd = socket_.fd(), .events = events, .revents = 0};
    if (poll(&ready, 1, static_cast<int>(kSlice.count())) > 0) return true;
    if (is_last)
      return broken(fmt::format(
          "{} {:g} s", found_.connected ? "connected, but nothing moves for" : "no answer within",
          manner_.patience_s));
  }
  return broken("it was given up");
}

bool Way::connect() {
  Connected begun = begin_connect(target_.address, target_.port);
  if (!begun.fault.empty()) return broken(begun.fault);
  socket_ = std::move(begun.socket);
  if (!wait(POLLOUT)) return false;
  if (const std::string fault = fault_of_connect(socket_); !fault.empty()) return broken(fault);
  found_.connected = true;
  return true;
}

bool Way::send_all(const char* data, std::size_t bytes, std::size_t repeated) {
  for (std::size_t done = 0; done < bytes * repeated;) {
    const std::size_t at = done % bytes;
    const ssize_t sent = send(socket_.fd(), data + at, bytes - at, MSG_NOSIGNAL);
    if (sent > 0)
      done += static_cast<std::size_t>(sent);
    else if (errno != EAGAIN && errno != EINTR)
      return broken(std::strerror(errno));
    else if (!wait(POLLOUT))
      return false;
  }
  return true;
}

bool Way::receive_answer(std::string& answer) {
  while (answer.size() < kProbeAnswerBytes) {
    std::array<char, kProbeAnswerBytes> part;
    const ssize_t got = recv(socket_.fd(), part.data(), kProbeAnswerBytes - answer.size(), 0);
    if (got > 0)
      answer.append(part.data(), static_cast<std::size_t>(got));
    else if (got == 0)
      return broken("the other end has closed the connection");
    else if (errno != EAGAIN && errno != EINTR)
      return broken(std::strerror(errno));
    else if (!wait(POLLIN))
      return false;
  }
  return true;
}

std::optional<double> Way::exchange(std::uint32_t payload) {
  static constexpr std::array<char, 1 << 14> kZeros{};
  std::array<char, kProbeHeadBytes> head;
  for (std::size_t i = 0; i < head.size(); ++i)
    head[i] = static_cast<char>(payload >> (8 * (head.size() - 1 - i)));
  const std::int64_t sent_ns = day_ns();
  const Clock::time_point begin = Clock::now();
  std::string answer;
  if (!send_all(head.data(), head.size()) ||
      !send_all(kZeros.data(), kZeros.size(), payload / kZeros.size()) || !receive_answer(answer))
    return std::nullopt;
  const double took_s = seconds(Clock::now() - begin);
  if (payload == 0) take_time(answer, sent_ns, took_s);
  return took_s;
}

/// Takes the other's time of day to be that of the middle of a round trip.
void Way::take_time(const std::string& answer, std::int64_t sent_ns, double took_s) {
  if (found_.round_trip_s > 0 && took_s >= found_.round_trip_s) return;
  std::uint64_t there_ns = 0;
  for (const char c : answer) there_ns = there_ns << 8 | static_cast<unsigned char>(c);
  found_.round_trip_s = took_s;
  found_.clock_error_s = took_s / 2;
  const std::int64_t since_sent = static_cast<std::int64_t>(there_ns) - sent_ns;
  found_.clock_ahead_s = static_cast<double>(since_sent) * 1e-9 - took_s / 2;
}

void Way::open() {
  if (!connect() || !send_all(manner_.secret.data(), manner_.secret.size())) return;
  const int count = manner_.measures ? kRoundTrips : 1;
  for (int i = 0; i < count && found_.fault.empty(); ++i) exchange(0);
}

void Way::measure() {
  if (!found_.fault.empty()) return;
  const auto first_s = exchange(kFirstBytes);
  if (!first_s) return;
  found_.bytes_per_s = kFirstBytes / *first_s;
  const double fit = found_.bytes_per_s * kBurstS;
  if (fit <= kFirstBytes) return;
  const auto bytes = static_cast<std::uint32_t>(std::min<double>(fit, kMostProbeBytes));
  const std::uint32_t whole = bytes / kFirstBytes * kFirstBytes;
  if (const auto second_s = exchange(whole))
    found_.bytes_per_s = std::max(found_.bytes_per_s, whole / *second_s);
}

}  // namespace

std::vector<LinkProbe> probe_links(std::span<const ProbeTarget> targets, const ProbeManner& manner,
                                   const std::stop_token& stop) {
  std::vector<Way> ways;
  ways.reserve(targets.size());
  for (const ProbeTarget& target : targets) ways.emplace_back(target, manner, stop);
  {
    std::atomic<std::size_t> next = 0;
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < std::min(kAtATime, ways.size()); ++i)
      threads.emplace_back([&] {
        for (std::size_t one = next++; one < ways.size(); one = next++) ways[one].open();
      });
  }
  std::vector<LinkProbe> found;
  for (Way& way : ways) {
    if (manner.measures) way.measure();
    found.push_back(way.found());
  }
  return found;
}

}  // namespace troupe::actors
