#include "launch/control/control_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "actors/messages/secret.h"
#include "launch/control/control_client.h"
#include "launch/control/event_json.h"
#include "launch/control/request_fields.h"
#include "launch/control/tap_request.h"
#include "tensor/errors/error.h"

namespace troupe::launch {

namespace {

/// The interval at which readers are sent all events since the last time. A hundred readers wake
/// this thread no more often than one, and the interval grows so that feeding takes at most 1 /
/// kFeedRest of a core.
constexpr std::chrono::nanoseconds kFeedInterval = std::chrono::milliseconds(50);
constexpr std::chrono::nanoseconds kMaxFeedInterval = std::chrono::seconds(1);
constexpr int kFeedRest = 200;
constexpr int kDeadlineCheckMs = 100;
constexpr std::size_t kMaxName = 100;

[[noreturn]] void os_error(const char* what) {
  throw Error(ErrorKind::unavailable,
              fmt::format("control socket: cannot {}: {}", what, std::strerror(errno)));
}

actors::Socket bind_loopback(int port) {
  actors::Socket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int fd = made.fd();
  if (fd < 0) os_error("make a socket");
  // A port counts as free although its last connections are in TIME_WAIT.
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      listen(fd, 16) == 0)
    return made;
  const int code = errno;
  throw Error(
      ErrorKind::manifest,
      fmt::format("cluster.port = {} cannot be used on 127.0.0.1: {}; 0 takes any free port", port,
                  std::strerror(code)));
}

}  // namespace

ControlServer::ControlServer(const Options& options)
    : options_(options), token_(actors::random_token()), listening_(bind_loopback(options.port)) {
  port_ = actors::port_of(listening_);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd_ < 0) os_error("make an event descriptor");
}

ControlServer::~ControlServer() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      quit_ = true;
    }
    wake();
    thread_.join();
  }
  close(wake_fd_);
}

void ControlServer::open_to_hosts(const std::string& address, transport::PortRange ports,
                                  const actors::Authority& authority) {
  using actors::Role;
  actors::Credentials command = authority.issue(Role::command, "command");
  command.token = token_;  // that of the run's processes is none of its business
  secure_ = {.address = address,
             .socket = actors::listen_on(address, ports),
             .tls = std::make_shared<actors::TlsContext>(authority.issue(Role::director, "control"),
                                                         Role::command),
             .credentials = to_text(command)};
}

ControlAddress ControlServer::address() const {
  ControlAddress address{.host = "127.0.0.1", .port = port_, .token = token_, .pid = getpid()};
  if (!secure_) return address;
  address.on = actors::name_of_this_host();
  address.address = secure_->address;
  address.secure_port = actors::port_of(secure_->socket);
  address.credentials = secure_->credentials;
  return address;
}

void ControlServer::serve(RunPort run) {
  run_ = std::move(run);
  thread_ = std::thread([this] { loop(); });
}

void ControlServer::finish(const nlohmann::json& outcome) {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    outcome_ = outcome;
  }
  wake();
  thread_.join();
}

void ControlServer::wake() const {
  const std::uint64_t one = 1;
  // It fails only if the counter is full, and then the thread is awake already.
  [[maybe_unused]] const auto written = write(wake_fd_, &one, sizeof one);
}

void ControlServer::loop() {
  while (true) {
    tell_answers();
    tell_outcome();
    {
      const std::lock_guard lock(mutex_);
      if (quit_) break;
    }
    if (finishing_ && connections_.empty()) break;
    if (news_ && Clock::now() >= next_feeding_) feed_readers();
    std::vector<pollfd> fds = watched();
    poll(fds.data(), fds.size(), timeout_ms());
    std::uint64_t count = 0;
    [[maybe_unused]] const auto drained = read(wake_fd_, &count, sizeof count);
    std::size_t index = 3;
    std::erase_if(connections_, [&](ControlConnection& c) {
      const bool over = !serve_ready(c, fds[index++].revents) || is_over(c);
      if (over) part(c);
      return over;
    });
    if (fds[1].revents != 0) accept_all(listening_.fd(), nullptr);
    if (fds[2].revents != 0) accept_all(secure_->socket.fd(), secure_->tls);
  }
  connections_.clear();
}

/// How long poll() may sleep: until events are due to be sent, or deadlines to be checked.
int ControlServer::timeout_ms() const {
  const bool timed = std::ranges::any_of(connections_, [](const ControlConnection& c) {
    return !c.waits_for_end && c.order == 0 && !c.feed;
  });
  if (!news_) return timed ? kDeadlineCheckMs : -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(next_feeding_ - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, kDeadlineCheckMs));
}

std::vector<pollfd> ControlServer::watched() const {
  std::vector<pollfd> fds{
      {.fd = wake_fd_, .events = POLLIN, .revents = 0},
      {.fd = finishing_ ? -1 : listening_.fd(), .events = POLLIN, .revents = 0},
      {.fd = finishing_ || !secure_ ? -1 : secure_->socket.fd(), .events = POLLIN, .revents = 0}};
  for (const ControlConnection& c : connections_)
    fds.push_back({.fd = c.fd(), .events = c.wanted_events(), .revents = 0});
  return fds;
}

/// Queues the outcome as the last frame of every connection that waits for it. The other
/// connections get no further answer.
void ControlServer::tell_outcome() {
  const std::lock_guard lock(mutex_);
  if (!outcome_ || finishing_) return;
  finishing_ = true;
  for (ControlConnection& c : connections_) {
    if (c.feed) c.feed_events(texts_);
    if (c.feed || c.waits_for_end) c.enqueue(to_frame({{"ended", *outcome_}}));
    c.order = 0;
    c.feed.reset();
    c.waits_for_end = false;
    c.deadline = Clock::now() + options_.timeout;
  }
  std::erase_if(connections_, [](const ControlConnection& c) { return c.all_said(); });
}

void ControlServer::accept_all(int listen_fd, const std::shared_ptr<actors::TlsContext>& tls) {
  using actors::TlsSession;
  while (true) {
    actors::Link link{.socket = actors::Socket(
                          accept4(listen_fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK))};
    const int fd = link.socket.fd();
    if (fd < 0) return;
    make_room();
    try {
      if (tls) link.session = std::make_unique<TlsSession>(tls, fd, TlsSession::Side::server);
    } catch (const Error&) {
      continue;  // no memory for it: the stranger is turned away
    }
    connections_.emplace_back(std::move(link), Clock::now() + options_.timeout);
  }
}

/// Closes the oldest unauthenticated connection if there are too many. A client that knows the
/// token shows it at once, so the oldest is the least likely to be one.
void ControlServer::make_room() {
  const auto stranger = [](const ControlConnection& c) { return !c.trusted; };
  if (std::ranges::count_if(connections_, stranger) >=
      static_cast<std::ptrdiff_t>(options_.max_unauthenticated))
    connections_.erase(std::ranges::find_if(connections_, stranger));
}

/// Whether nothing is left to send or to wait for, or the connection's deadline has passed.
bool ControlServer::is_over(const ControlConnection& c) const {
  if (c.waits_for_end || c.order != 0 || c.feed) return false;
  return (c.trusted && c.all_said()) || Clock::now() > c.deadline;
}

/// Serves a connection that poll() reports as ready. Returns false if the connection is over.
bool ControlServer::serve_ready(ControlConnection& c, short events) {
  if ((events & POLLIN) != 0 && !hear(c)) return false;
  if ((events & (POLLERR | POLLNVAL)) != 0) return false;
  if ((events & POLLHUP) != 0 && (events & POLLIN) == 0) return false;
  if (c.all_said()) return true;
  if (!c.write()) return false;
  if (c.feed && c.all_said()) news_ = true;  // there may be more events for this reader
  return true;
}

bool ControlServer::hear(ControlConnection& c) {
  if (!c.read()) return false;
  if (c.trusted && !c.feed) return false;  // a connection carries only one request
  while (const auto frame = c.next_frame()) {
    if (!c.feed) return answer(c, *frame);
    const auto grant = nlohmann::json::parse(*frame, nullptr, false);
    if (!grant.is_object() || !grant.contains("credit") || !grant["credit"].is_number_unsigned())
      return false;
    c.feed->grant(grant["credit"].get<std::uint64_t>());
    news_ = true;
  }
  return !c.broken();
}

bool ControlServer::answer(ControlConnection& c, const std::string& frame) {
  const auto request = authenticated_request(frame, token_);
  if (!request) return false;
  c.trusted = true;
  c.deadline = Clock::now() + options_.timeout;
  try {
    serve(c, *request);
  } catch (const std::exception& e) {
    c.enqueue(to_frame({{"error", e.what()}}));
  }
  return true;
}

void ControlServer::serve(ControlConnection& c, const nlohmann::json& request) {
  const std::string& name = request.at("request").get_ref<const std::string&>();
  if (name == "status" || name == "stop" || name == "save") refuse_other_fields(request, {});
  if (name == "status") {
    c.enqueue(to_frame(run_.status()));
  } else if (name == "stop") {
    c.waits_for_end = true;
    c.enqueue(to_frame({{"accepted", true}}));
    run_.stop("stopped by troupe stop");
  } else if (name == "scale") {
    scale(c, request);
  } else if (name == "save") {
    save(c);
  } else if (name == "attach") {
    attach(c, request);
  } else {
    c.enqueue(to_frame({{"error", "unknown request; it is status, stop, scale, save or attach"}}));
  }
}

void ControlServer::scale(ControlConnection& c, const nlohmann::json& request) {
  const actors::ScaleRequest wish = parse_scale(request);
  c.order = ++orders_;
  run_.scale(wish, [this, order = c.order](const actors::ScaleAnswer& answer) {
    on_answer(order, {{"code", answer.code}, {"text", answer.text}});
  });
}

void ControlServer::save(ControlConnection& c) {
  c.order = ++orders_;
  run_.save([this, order = c.order](const actors::SaveAnswer& answer) {
    if (answer.code == 0)
      on_answer(order, {{"code", 0}, {"step", answer.step}});
    else
      on_answer(order, {{"code", answer.code}, {"text", answer.text}});
  });
}

/// Called from any thread.
void ControlServer::on_answer(std::uint64_t order, nlohmann::json answer) {
  {
    const std::lock_guard lock(mutex_);
    answers_.emplace_back(order, std::move(answer));
  }
  wake();
}

void ControlServer::tell_answers() {
  std::vector<std::pair<std::uint64_t, nlohmann::json>> answers;
  {
    const std::lock_guard lock(mutex_);
    answers.swap(answers_);
  }
  for (const auto& [order, answer] : answers)
    for (ControlConnection& c : connections_)
      if (c.order == order) {
        c.order = 0;
        c.deadline = Clock::now() + options_.timeout;
        c.enqueue(to_frame(answer));
      }
}

void ControlServer::attach(ControlConnection& c, const nlohmann::json& request) {
  if (!run_.hub) throw Error(ErrorKind::unavailable, "this run publishes no events");
  const auto readers = std::ranges::count_if(
      connections_, [](const ControlConnection& other) { return other.feed != nullptr; });
  if (static_cast<std::size_t>(readers) >= options_.max_readers)
    throw Error(ErrorKind::unavailable,
                fmt::format("{} readers are attached already, and no more are served", readers));
  refuse_other_fields(request, {"kinds", "who", "credit", "tap"});
  const auto kinds = parse_kinds(text_field(request, "kinds").value_or(""));
  const std::string who = text_field(request, "who").value_or("").substr(0, kMaxName);
  const int credit = std::max(0, count_field(request, "credit").value_or(0));
  std::optional<actors::TapRequest> tap;
  if (const auto given = request.find("tap"); given != request.end() && !given->is_null())
    tap = parse_tap(*given);
  if (tap && run_.hub->taps().size() >= actors::kMaxTaps)
    throw Error(ErrorKind::unavailable,
                fmt::format("{} taps are open already, and no more are served", actors::kMaxTaps));
  auto subscription = run_.hub->subscribe({.kinds = kinds, .tap = tap, .wake = [this] {
                                             if (!news_.exchange(true)) wake();
                                           }});
  c.feed = std::make_unique<EventFeed>(std::move(subscription), who);
  c.feed->grant(static_cast<std::uint64_t>(credit));
  c.enqueue(to_frame({{"attached", run_.status()}}));
  run_.hub->publish({.body = actors::MonitorAttached{.who = who}});
}

void ControlServer::feed_readers() {
  news_ = false;  // cleared first, so that events that arrive from now on wake the thread again
  const auto begin = Clock::now();
  std::erase_if(connections_, [&](ControlConnection& c) {
    const bool gone = c.feed && !c.feed_events(texts_);
    if (gone) part(c);
    return gone;
  });
  next_feeding_ = begin + std::clamp<std::chrono::nanoseconds>(kFeedRest * (Clock::now() - begin),
                                                               kFeedInterval, kMaxFeedInterval);
}

void ControlServer::part(const ControlConnection& c) {
  if (c.feed)
    run_.hub->publish(
        {.body = actors::MonitorDetached{.who = c.feed->who(), .dropped = c.feed->dropped()}});
}

}  // namespace troupe::launch
