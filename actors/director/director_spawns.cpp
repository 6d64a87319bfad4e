#include <algorithm>
#include <caf/io/middleman.hpp>
#include <utility>

#include "actors/director/director.h"
#include "actors/security/local_door.h"
#include "tensor/errors/error.h"

// How the director starts workers, and the port at which they join.

namespace troupe::actors {

void Director::perform(const SpawnWorker& effect) {
  if (effect.delay_s <= 0) return start(effect);
  delayed_[effect.incarnation] = effect;
  delayed_send(this, to_milliseconds(effect.delay_s), SpawnDue{.incarnation = effect.incarnation});
}

void Director::start_due(std::uint64_t incarnation) {
  const auto node = delayed_.extract(incarnation);
  if (node.empty()) return;
  const bool is_alone = std::ranges::none_of(protocol_.roster(), [&](const auto& other) {
    return !other.second.joined && other.first != incarnation && !delayed_.contains(other.first);
  });
  // CAF gives a port up for good if it has no descriptor for a connection.
  if (is_alone) close_join_port();
  start(node.mapped());
}

/// Starts a worker. One that cannot be started has ended.
void Director::start(const SpawnWorker& worker) try {
  open_join_port();
  const std::string name = worker.rank < 0 ? "spare-" + std::to_string(worker.id)
                                           : "rank-" + std::to_string(worker.rank);
  liveness_.expect(worker.incarnation);
  context_.processes.spawn({.host = "127.0.0.1",
                            .port = port_,
                            .token = context_.token,
                            .id = worker.id,
                            .incarnation = worker.incarnation,
                            .cores = context_.spec.cluster.cores,
                            .ports = context_.spec.cluster.ports,
                            .log_dir = context_.spec.dir + "/logs/" + name,
                            .on = worker.host,
                            .failed_gpus = worker.failed_gpus});
} catch (const Error& error) {
  send(this, Event{WorkerExited{.incarnation = worker.incarnation,
                                .exit_code = static_cast<int>(error.kind()),
                                .cause = std::string("a failed start: ") + error.what()}});
}

/// Tells the protocol that the workers which wait for their start have ended.
void Director::forget_delayed() {
  for (const auto& [incarnation, worker] : std::exchange(delayed_, {}))
    send(this, Event{WorkerExited{.incarnation = incarnation}});
}

/// Opens the port at which workers join. It is open only while workers are expected.
void Director::open_join_port() {
  if (port_ != 0) return;
  port_ = publish_locally(caf::actor_cast<caf::actor>(this));
}

void Director::close_join_port() {
  if (std::exchange(port_, 0) != 0)
    system().middleman().unpublish(caf::actor_cast<caf::actor>(this));
}

}  // namespace troupe::actors
