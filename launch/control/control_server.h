#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "launch/control/control_connection.h"
#include "launch/control/run_port.h"

struct pollfd;

namespace troupe::launch {

struct ControlAddress;

/// The launcher's end of the control socket, on a thread of its own. Unauthenticated connections
/// cost it little: they are few, each has a deadline, nothing is allocated beyond a small frame,
/// and a peer that does not take a reply is dropped. An attached reader that does not read costs
/// one waiting frame and its queue in the hub, and nothing more.
class ControlServer {
 public:
  struct Options {
    int port = 0;  ///< 0: any free port
    /// Time for a request to arrive, and for a reply to be taken.
    std::chrono::milliseconds timeout{5000};
    std::size_t max_unauthenticated = 32;  ///< most connections without a token
    std::size_t max_readers = 256;
  };
  /// Binds the port; no connection is answered before serve(). Throws Error{manifest} naming the
  /// port if it is taken.
  explicit ControlServer(const Options& options);
  ControlServer(const ControlServer&) = delete;
  /// Stops serving at once.
  ~ControlServer();

  /// Serves commands of other hosts too, over TLS, on a numeric address of this machine; port 0:
  /// any that is free. Before serve(). Throws Error{unavailable} naming the address.
  void open_to_hosts(const std::string& address, transport::PortRange ports,
                     const actors::Authority& authority);
  int port() const { return port_; }
  const std::string& token() const { return token_; }
  /// What a command has to know.
  ControlAddress address() const;
  /// How many connections from other hosts were refused, or given up, before they had shown a
  /// command's certificate.
  std::uint64_t refused() const { return secure_ ? secure_->tls->refused() : 0; }
  /// Answers requests by `run`, whose hub outlives the server's thread.
  void serve(RunPort run);
  /// Sends the outcome to the clients that asked for a stop or are attached, waits until they have
  /// it or their time is over, and stops serving.
  void finish(const nlohmann::json& outcome);

 private:
  using Clock = ControlConnection::Clock;

  void loop();
  int timeout_ms() const;
  void accept_all(int listen_fd, const std::shared_ptr<actors::TlsContext>& tls);
  void make_room();
  bool serve_ready(ControlConnection& connection, short events);
  bool hear(ControlConnection& connection);
  bool answer(ControlConnection& connection, const std::string& frame);
  void serve(ControlConnection& connection, const nlohmann::json& request);
  void scale(ControlConnection& connection, const nlohmann::json& request);
  void save(ControlConnection& connection);
  void on_answer(std::uint64_t order, nlohmann::json answer);
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
  /// What serves commands of other hosts.
  struct Secure {
    std::string address;
    actors::Socket socket;
    std::shared_ptr<actors::TlsContext> tls;
    std::string credentials;  ///< what a command shows
  };

  const actors::Socket listening_;
  std::optional<Secure> secure_;
  int wake_fd_ = -1;
  int port_ = 0;

  // The members down to finishing_ are used by the thread alone.
  RunPort run_;
  std::list<ControlConnection> connections_;
  EventTexts texts_;
  Clock::time_point next_feeding_;
  std::uint64_t orders_ = 0;  ///< number of orders so far
  bool finishing_ = false;

  std::atomic<bool> news_{false};  // whether there may be events to send to readers

  std::mutex mutex_;  // guards outcome_, answers_ and quit_
  std::optional<nlohmann::json> outcome_;
  std::vector<std::pair<std::uint64_t, nlohmann::json>> answers_;
  bool quit_ = false;

  std::thread thread_;
};

}  // namespace troupe::launch
