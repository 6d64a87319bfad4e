#include "actors/security/secure_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <caf/actor_system.hpp>
#include <caf/io/middleman.hpp>
#include <caf/scoped_actor.hpp>
#include <set>
#include <utility>

#include "actors/security/tls_middleman.h"
#include "tensor/errors/error.h"

namespace troupe::actors {

SecureLinks::SecureLinks(caf::actor_system& system, Role role, const Credentials& own)
    : system_(system),
      context_(
          std::make_shared<TlsContext>(own, role == Role::director ? Role::host : Role::director)),
      links_(std::make_shared<TlsLinks>()),
      middleman_(spawn_tls_middleman(system, context_, links_)) {}

SecureLinks::~SecureLinks() {
  caf::anon_send_exit(middleman_, caf::exit_reason::user_shutdown);
}

int SecureLinks::publish(const caf::actor& actor, const std::string& address,
                         transport::PortRange ports) {
  Link link{.socket = listen_on(address, ports), .session = nullptr};
  const int bound = port_of(link.socket);
  caf::scoped_actor self{system_};
  std::string error;
  self->request(middleman_, caf::infinite, caf::publish_atom::value,
                static_cast<std::uint16_t>(bound), caf::actor_cast<caf::strong_actor_ptr>(actor),
                std::set<std::string>{}, links_->leave(std::move(link)), false)
      .receive([](std::uint16_t) {}, [&](const caf::error& e) { error = system_.render(e); });
  if (!error.empty())
    throw Error(ErrorKind::unavailable, address_text(address, bound) + ": " + error);
  return bound;
}

caf::actor SecureLinks::connect(const std::string& host, int port,
                                std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  links_->take_fault();
  const std::string name = links_->leave(connect_tls(context_, host, port, deadline));
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  caf::scoped_actor self{system_};
  caf::strong_actor_ptr found;
  std::string error;
  self->request(middleman_, std::max(left, std::chrono::milliseconds(1)), caf::connect_atom::value,
                name, static_cast<std::uint16_t>(port))
      .receive([&](const caf::node_id&, const caf::strong_actor_ptr& actor,
                   const std::set<std::string>&) { found = actor; },
               [&](const caf::error& e) { error = system_.render(e); });
  if (found) return caf::actor_cast<caf::actor>(found);
  if (const std::string fault = links_->take_fault(); !fault.empty())
    throw Error(ErrorKind::unavailable,
                fmt::format("{}: it refused this side: {}", address_text(host, port), fault));
  throw Error(ErrorKind::retry, fmt::format("{}: {}", address_text(host, port),
                                            error.empty() ? "nobody is there" : error));
}

bool SecureLinks::answers(const std::string& host, int port) const try {
  connect_tls(context_, host, port, std::chrono::steady_clock::now() + std::chrono::seconds(3));
  return true;
} catch (const Error&) {
  return false;
}

std::uint64_t SecureLinks::refused() const {
  return context_->refused();
}

}  // namespace troupe::actors
