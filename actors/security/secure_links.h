#pragma once

#include <caf/actor.hpp>
#include <caf/fwd.hpp>
#include <caf/io/middleman_actor.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "actors/security/credentials.h"
#include "transport/ucx/network_interface.h"

namespace troupe::actors {

class TlsContext;
class TlsLinks;

/// The TLS links of an actor system, beside its plain ones: CAF routes messages between both.
/// CAF's own TLS (caf::openssl 0.17) is not used: there a refused connection leaves an error in
/// its thread, for which OpenSSL then ends another link; keys are files, which each handshake
/// reads; and nothing is counted. A system without secure links is as it was.
class SecureLinks {
 public:
  /// A director accepts hosts, anybody else connects to directors.
  SecureLinks(caf::actor_system& system, Role role, const Credentials& own);
  SecureLinks(const SecureLinks&) = delete;
  ~SecureLinks();

  /// Lets hosts reach the actor at a numeric address of this machine, and a port as of listen_on().
  /// Returns the port. Throws Error{unavailable} naming the address.
  int publish(const caf::actor& actor, const std::string& address, transport::PortRange ports);
  /// The actor that is published there. One that lost its director's link without a word comes back
  /// with a new actor system: while the director still has the old link, CAF takes a second one of
  /// the same system for its repetition, and sends into the old one. Throws Unreachable if nobody
  /// answers within 3 s, or another Error: who refused whom, and why. Its kind is retry where
  /// another attempt may do: nobody was refused, but the connection was closed, or no answer came
  /// in time.
  caf::actor connect(const std::string& host, int port, std::chrono::milliseconds patience);
  /// Whether somebody of the run publishes an actor there and is awake. Takes up to 3 s.
  bool answers(const std::string& host, int port) const;
  /// How many connections to published actors were refused, or given up, before they had shown a
  /// certificate.
  std::uint64_t refused() const;

 private:
  caf::actor_system& system_;
  const std::shared_ptr<TlsContext> context_;
  const std::shared_ptr<TlsLinks> links_;
  caf::io::middleman_actor middleman_;
};

}  // namespace troupe::actors
