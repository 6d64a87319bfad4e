#pragma once

#include <caf/fwd.hpp>
#include <caf/io/middleman_actor.hpp>
#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "actors/security/tls.h"

namespace troupe::actors {

/// What SecureLinks and the threads of CAF share.
class TlsLinks {
 public:
  struct Stranger {
    int fd;
    std::chrono::steady_clock::time_point since;
    bool is_cut = false;
  };
  using Strangers = std::list<Stranger>;

  /// Leaves a socket for CAF's middleman, which asks for it by the name that this returns.
  std::string leave(Link link) {
    const std::lock_guard lock(mutex_);
    const std::string name = "link " + std::to_string(++left_);
    waiting_.emplace(name, std::move(link));
    return name;
  }
  Link take(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.extract(name);
    return found ? std::move(found.mapped()) : Link{};
  }
  void note(const std::string& fault) {
    const std::lock_guard lock(mutex_);
    fault_ = fault;
  }
  std::string take_fault() {
    const std::lock_guard lock(mutex_);
    return std::exchange(fault_, {});
  }

  // These are called by CAF's thread of sockets alone.

  /// Notes one that has connected. Those who take too long are cut off, and the oldest of too many.
  Strangers::iterator meet(int fd);
  void forget(Strangers::iterator stranger) {
    (stranger->is_cut ? cut_ : strangers_).erase(stranger);
  }

 private:
  std::mutex mutex_;  // guards the members down to fault_
  std::uint64_t left_ = 0;
  std::map<std::string, Link> waiting_;
  std::string fault_;
  Strangers strangers_, cut_;  // in the order in which they came; cut off, and not closed yet
};

/// CAF's middleman actor for connections over TLS. It gets its sockets from `links`.
caf::io::middleman_actor spawn_tls_middleman(caf::actor_system& system,
                                             std::shared_ptr<TlsContext> context,
                                             std::shared_ptr<TlsLinks> links);

}  // namespace troupe::actors
