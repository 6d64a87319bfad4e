#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/monitors/hub.h"
#include "actors/topology/scale.h"
#include "launch/control/control_connection.h"

struct pollfd;

namespace troupe::launch {

/// What the control socket asks of the run; called from the server's thread.
struct ControlHandlers {
  std::function<nlohmann::json()> status;
  std::function<void()> stop;
  /// Its answer is told once, from any thread, to who asked.
  std::function<void(const actors::ScaleRequest& request,
                     std::function<void(const actors::ScaleAnswer&)> answer)>
      scale;
  actors::Hub* hub = nullptr;  ///< what attached readers are told; outlives the server's thread
};

/// The launcher's end of the control socket, on a thread of its own. Strangers cost it little:
/// connections are few and each has a deadline, nothing is allocated beyond a small frame, and who
/// does not take a reply is dropped. An attached reader that does not read keeps one frame waiting
/// and its queue in the hub, and costs nothing more.
class ControlServer {
 public:
  struct Options {
    int port = 0;  ///< 0: any free one
    std::chrono::milliseconds timeout{
        5000};                             ///< for a request to arrive and for a reply to be taken
    std::size_t max_unauthenticated = 32;  ///< connections that have not shown the token
    std::size_t max_readers = 256;
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
  using Clock = ControlConnection::Clock;

  void loop();
  int timeout_ms() const;
  void accept_all();
  void make_room();
  bool serve_ready(ControlConnection& connection, short events);
  bool hear(ControlConnection& connection);
  bool answer(ControlConnection& connection, const std::string& frame);
  void scale(ControlConnection& connection, const nlohmann::json& request);
  void tell_answers();
  void attach(ControlConnection& connection, const nlohmann::json& request);
  void feed_readers();
  void tell_outcome();
  bool is_over(const ControlConnection& connection) const;
  void part(const ControlConnection& connection);
  std::vector<pollfd> watched() const;
  void wake() const;

  const Options options_;
  const std::string token_;
  int listen_fd_ = -1;
  int wake_fd_ = -1;
  int port_ = 0;

  // The thread's own.
  ControlHandlers handlers_;
  std::list<ControlConnection> connections_;
  EventTexts texts_;
  Clock::time_point next_feeding_;
  std::uint64_t orders_ = 0;  ///< so far
  bool finishing_ = false;

  std::atomic<bool> news_{false};  // readers may have something to be told

  std::mutex mutex_;  // guards the orders
  std::optional<nlohmann::json> outcome_;
  std::vector<std::pair<std::uint64_t, actors::ScaleAnswer>> answers_;
  bool quit_ = false;

  std::thread thread_;
};

}  // namespace troupe::launch
