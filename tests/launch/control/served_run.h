#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "launch/control/control_client.h"
#include "launch/control/control_server.h"
#include "launch/control/event_json.h"

// A control socket with a made-up run behind it, and connections to it.

namespace troupe::test {

constexpr std::chrono::seconds kLong{60};  // a client's timeout: never reached

/// A server for a run that counts stop orders.
class Served {
 public:
  using Remote = std::pair<const char*, const actors::Authority*>;
  explicit Served(const launch::ControlServer::Options& options = {}, std::string run = "run",
                  const std::optional<Remote>& remote = std::nullopt)
      : server(options) {
    if (remote) server.open_to_hosts(remote->first, {}, *remote->second);
    server.serve({.status =
                      [run] {
                        return launch::to_json(actors::RunStatus{.state = "running", .step = 7},
                                               run);
                      },
                  .stop = [this](const std::string&) { ++stops; },
                  .hub = &hub});
  }
  launch::ControlAddress address() const { return server.address(); }
  void check_alive() { check_alive(address()); }
  void check_alive(const launch::ControlAddress& where) {
    launch::ControlClient client(where, "status");
    const auto reply = client.receive(kLong);
    BOOST_REQUIRE(reply.has_value());
    BOOST_TEST(reply->at("step") == 7);
  }

  std::atomic<int> stops = 0;
  actors::Hub hub;
  launch::ControlServer server;
};

/// A connection over which the test sends arbitrary bytes.
class RawConnection {
 public:
  explicit RawConnection(int port, const char* host = "127.0.0.1")
      : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(static_cast<std::uint16_t>(port));
    inet_pton(AF_INET, host, &where.sin_addr);
    BOOST_REQUIRE(connect(fd_, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0);
  }
  ~RawConnection() { close(fd_); }
  void write(const std::string& bytes) {
    (void)send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void hang_up() { shutdown(fd_, SHUT_WR); }
  /// Reads everything that the server sends until it closes the connection.
  std::string read() {
    std::string received;
    std::array<char, 4096> bytes;
    for (ssize_t got; (got = recv(fd_, bytes.data(), bytes.size(), 0)) > 0;)
      received.append(bytes.data(), static_cast<std::size_t>(got));
    return received;
  }

 private:
  int fd_;
};

}  // namespace troupe::test
