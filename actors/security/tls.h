#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "actors/security/credentials.h"
#include "actors/security/sockets.h"

// TLS 1.3 with certificates on both sides, over sockets that are the caller's.

namespace troupe::actors {

/// Who this process is, and whom it speaks with: what all its connections of a kind have in common.
class TlsContext {
 public:
  /// `peer`: the role that the other side must have.
  TlsContext(const Credentials& own, Role peer);
  TlsContext(const TlsContext&) = delete;
  ~TlsContext();

  SSL_CTX* get() const { return context_.get(); }
  /// How many accepted connections ended before the other side had shown that it may speak here.
  std::uint64_t refused() const { return refused_; }

 private:
  friend class TlsSession;
  const Role peer_;
  OwnedContext context_;
  std::atomic<std::uint64_t> refused_{0};
};

/// One end of a connection. Never blocks; one thread at a time.
class TlsSession {
 public:
  enum class Side { client, server };
  /// `fd` is a non-blocking socket that outlives the session.
  TlsSession(std::shared_ptr<TlsContext> context, int fd, Side side);
  TlsSession(const TlsSession&) = delete;
  ~TlsSession();

  /// Reads some of what has arrived; 0 if nothing has. None once the connection is over, because
  /// either side closed it or is not who it should be. Goes on with the handshake. A buffer of
  /// kRecordBytes leaves nothing that poll() does not see.
  std::optional<std::size_t> read(void* to, std::size_t size);
  static constexpr std::size_t kRecordBytes = 16 * 1024;
  /// Sends what the socket takes; 0 if it takes nothing now. None once the connection is over. What
  /// is sent before the other side is known is kept until then, and must be little.
  std::optional<std::size_t> write(const void* from, std::size_t size);
  /// The number of bytes that have been received from the socket and not been read.
  std::size_t pending() const;
  /// Whether the other side has shown who it is. Only then has the one that connected not been
  /// refused by the other.
  bool is_trusted() const { return trusted_; }
  /// Goes on with the handshake. Returns false if the connection is over.
  bool shake();
  /// The event of poll() that the handshake waits for.
  short awaited() const;
  /// Why the connection is over, for people; empty if the other side just closed it.
  const std::string& fault() const { return fault_; }

 private:
  bool goes_on(int result);

  const std::shared_ptr<TlsContext> context_;
  OwnedSession session_;
  const bool accepts_;  ///< whether the other side has made the connection
  bool trusted_ = false;
  std::string early_;  // written before the other side was known
  std::string fault_;
};

/// A connection; a plain one has no session.
struct Link {
  Socket socket;  // outlives the session
  std::unique_ptr<TlsSession> session = nullptr;

  // These are as those of TlsSession.
  std::optional<std::size_t> read(void* to, std::size_t size);
  std::optional<std::size_t> write(const void* from, std::size_t size);
};
/// A connection whose handshake is done on this side. Throws an Error naming the address: of the
/// kind unavailable if nobody is there or its certificate is not what it should be, and retry if it
/// does not answer by the deadline or closes the connection without a word.
Link connect_tls(const std::shared_ptr<TlsContext>& context, const std::string& host, int port,
                 std::chrono::steady_clock::time_point deadline);

}  // namespace troupe::actors
