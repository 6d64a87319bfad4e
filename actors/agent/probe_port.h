#pragma once

#include <string>
#include <thread>

#include "actors/security/sockets.h"

namespace troupe::actors {

/// Bytes of a message of a probe, before its payload: how long that is, big-endian.
inline constexpr std::size_t kProbeHeadBytes = 4;
/// The longest payload.
inline constexpr std::uint32_t kMostProbeBytes = 16 << 20;
/// Bytes of the answer, which follows the last byte of a payload: the time of day in nanoseconds
/// since 1970, big-endian.
inline constexpr std::size_t kProbeAnswerBytes = 8;

/// A TCP port of this host at which others try how they reach it, while the object lives. Who
/// connects sends the secret, then messages, each of which is answered in a few bytes: nobody can
/// have it send more than it receives. Others are cut off. A thread of its own serves it.
class ProbePort {
 public:
  /// At a numeric address of this machine; `ports` as cluster.ports, of which it takes a free one.
  /// Throws Error{unavailable} if none is free.
  ProbePort(const std::string& address, const std::string& ports, std::string secret);
  ProbePort(const ProbePort&) = delete;
  ~ProbePort();
  int port() const { return port_; }

 private:
  void serve();

  const std::string secret_;
  const Socket listener_;
  const int port_;
  const Socket wake_;  ///< an eventfd
  std::thread thread_;
};

}  // namespace troupe::actors
