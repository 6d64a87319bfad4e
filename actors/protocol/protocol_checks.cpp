#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "actors/protocol/protocol.h"

// Checks for impossible events, whichever worker sent them: none of their numbers is used. Events
// that are only late are left to handle().

namespace troupe::actors {

std::string DirectorProtocol::fault_of_configuration(std::uint32_t configuration) const {
  if (configuration <= gathering_.number() || takeover_.adoption) return "";
  return fmt::format("configuration {}, but the newest is {}", configuration, gathering_.number());
}

std::string DirectorProtocol::fault_of_replica(std::uint32_t configuration, int replica) const {
  if (std::string fault = fault_of_configuration(configuration); !fault.empty()) return fault;
  const int dp = configuration_.shape.mesh.dp;
  if (configuration != configuration_.number || (replica >= 0 && replica < dp)) return "";
  return fmt::format("replica {} of {}", replica, dp);
}

std::string DirectorProtocol::fault_in(const Halted& event) const {
  if (std::string fault = fault_of_configuration(event.configuration); !fault.empty()) return fault;
  const std::int64_t newest = std::max({reached_, committed_, first_step_, takeover_.newest_held});
  if (!roster_.contains(event.incarnation)) return "";  // gone since, with what it had
  // What an earlier director has committed last is known by this answer alone.
  const auto is_step = [&](std::int64_t step) {
    return step >= -1 && (step <= newest || takeover_.chooses_state);
  };
  if (!is_step(event.inventory.step))
    return fmt::format("a state of step {}, but the newest is of {}", event.inventory.step, newest);
  for (const CopyRecord& copy : event.inventory.copies)
    if (copy.rank < 0 || !is_step(copy.step))  // an earlier configuration may have had more ranks
      return fmt::format("a copy of step {} of rank {}", copy.step, copy.rank);
  return "";
}

std::string DirectorProtocol::fault_in(const Warm& event) const {
  if (!scale_ || scale_->id != event.order) return "";
  const int ranks = std::max(scale_->target.shape.num_ranks(), scale_->most_ranks);
  if (event.rank >= 0 && event.rank < ranks) return "";
  return fmt::format("rank {} of {}", event.rank, ranks);
}

std::string DirectorProtocol::fault_in(const ReplicaEvaluated& event) const {
  const std::int64_t batches = spec_.eval.batches(spec_.batch.global);
  if (event.batch < 0 || event.batch >= batches)
    return fmt::format("batch {} of {}", event.batch, batches);
  return fault_of_replica(event.configuration, event.replica);
}

std::string DirectorProtocol::fault_in(const WorkerFailed& event) const {
  return fault_of_configuration(event.configuration);
}

std::string DirectorProtocol::fault_in(const HostJoined& event) const {
  if (hosts_.empty() && gathering_.number() > 0)
    return fmt::format("host {}, but the run is on one machine", event.host.name);
  if (event.host.name.empty() || event.host.slots < 1)
    return fmt::format("host '{}' with {} slots", event.host.name, event.host.slots);
  return "";
}

}  // namespace troupe::actors
