#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "launch/control_protocol.h"

struct pollfd;

namespace troupe::launch {

/// What the control socket asks of the run; called from the server's thread.
struct ControlHandlers {
  std::function<nlohmann::json()> status;
  std::function<void()> stop;
};

/// The launcher's end of the control socket, on a thread of its own. Strangers cost it little:
/// connections are few and each has a deadline, nothing is allocated beyond a small frame, and a
/// reader that does not read is dropped.
class ControlServer {
 public:
  struct Options {
    int port = 0;  ///< 0: any free one
    std::chrono::milliseconds patience{
        5000};  ///< for a request to arrive and for a reply to be taken
    std::size_t max_connections = 32;
  };
  /// Binds the port; nobody is answered before serve(). Throws Error{manifest} naming the port if
  /// it is taken.
  explicit ControlServer(const Options& options);
  ControlServer(const ControlServer&) = delete;
  /// Stops serving at once.
  ~ControlServer();

  int port() const { return port_; }
  const std::string& token() const { return token_; }
  void serve(ControlHandlers handlers);
  /// Tells those who asked for a stop how the run ended, waits until they have it or their time is
  /// over, and stops serving.
  void finish(const nlohmann::json& outcome);

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection;

  void loop();
  void accept_all();
  void make_room();
  bool serve_ready(Connection& connection, short events);
  bool read_request(Connection& connection);
  bool answer(Connection& connection, const std::string& frame);
  bool write_reply(Connection& connection);
  void tell_outcome();
  bool expired(const Connection& connection) const;
  std::vector<pollfd> watched() const;
  void wake() const;

  const Options options_;
  const std::string token_;
  int listen_fd_ = -1;
  int wake_fd_ = -1;
  int port_ = 0;

  // The thread's own.
  ControlHandlers handlers_;
  std::list<Connection> connections_;
  bool finishing_ = false;

  std::mutex mutex_;  // guards the orders
  std::optional<nlohmann::json> outcome_;
  bool quit_ = false;

  std::thread thread_;
};

}  // namespace troupe::launch
