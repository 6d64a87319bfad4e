#include <algorithm>
#include <string>

#include "actors/protocol/protocol.h"

// Checks for impossible events, whichever worker sent them: none of their numbers is used. Events
// that are only late are left to handle().

namespace troupe::actors {

std::string DirectorProtocol::fault_of_configuration(std::uint32_t configuration) const {
  if (configuration <= gathering_.number()) return "";
  return "configuration " + std::to_string(configuration) + ", but the newest is " +
         std::to_string(gathering_.number());
}

std::string DirectorProtocol::fault_of_replica(std::uint32_t configuration, int replica) const {
  if (std::string fault = fault_of_configuration(configuration); !fault.empty()) return fault;
  const int dp = configuration_.shape.mesh.dp;
  if (configuration != configuration_.number || (replica >= 0 && replica < dp)) return "";
  return "replica " + std::to_string(replica) + " of " + std::to_string(dp);
}

std::string DirectorProtocol::fault_in(const MemberHalted& event) const {
  if (std::string fault = fault_of_configuration(event.configuration); !fault.empty()) return fault;
  const std::int64_t newest = std::max({reached_, committed_, first_step_});
  const auto is_step = [&](std::int64_t step) { return step >= -1 && step <= newest; };
  if (!is_step(event.inventory.step))
    return "a state of step " + std::to_string(event.inventory.step) + ", but the newest is of " +
           std::to_string(newest);
  for (const CopyRecord& copy : event.inventory.copies)
    if (copy.rank < 0 || !is_step(copy.step))  // an earlier configuration may have had more ranks
      return "a copy of step " + std::to_string(copy.step) + " of rank " +
             std::to_string(copy.rank);
  return "";
}

std::string DirectorProtocol::fault_in(const MemberWarm& event) const {
  if (!scale_ || scale_->id != event.order) return "";
  const int ranks = scale_->shape.num_ranks();
  if (event.rank >= 0 && event.rank < ranks) return "";
  return "rank " + std::to_string(event.rank) + " of " + std::to_string(ranks);
}

std::string DirectorProtocol::fault_in(const ReplicaReady& event) const {
  return fault_of_replica(event.configuration, event.replica);
}

std::string DirectorProtocol::fault_in(const ReplicaPrepared& event) const {
  return fault_of_replica(event.configuration, event.replica);
}

std::string DirectorProtocol::fault_in(const ReplicaSaved& event) const {
  return fault_of_replica(event.configuration, event.replica);
}

std::string DirectorProtocol::fault_in(const ReplicaEvaluated& event) const {
  const std::int64_t batches = spec_.eval.batches(spec_.batch.global);
  if (event.batch < 0 || event.batch >= batches)
    return "batch " + std::to_string(event.batch) + " of " + std::to_string(batches);
  return fault_of_replica(event.configuration, event.replica);
}

std::string DirectorProtocol::fault_in(const WorkerFailed& event) const {
  return fault_of_configuration(event.configuration);
}

}  // namespace troupe::actors
