#pragma once

#include <cstdint>
#include <string>

#include "actors/messages/messages.h"
#include "actors/messages/takeover_messages.h"

// Checks that a message from the wire is possible, before any number in it is used. A damaged
// worker, or another program with the run's token, may send anything. A late message is not wrong:
// the receiver of a message of an earlier configuration ignores it.

namespace troupe::actors {

/// The configuration, ranks and step to which answers of a replica's ranks must belong.
struct ReplicaPart {
  std::uint32_t configuration = 0;
  int replica = 0;
  int first_rank = 0;
  int ranks_of_replica = 1;
  int num_ranks = 1;
  int num_chunks = 1;
  std::int64_t committed = 0;  ///< the last committed step
};

// Each function returns why the message is impossible; empty if it is possible.
std::string fault_in(const Ready& answer, const ReplicaPart& part);
std::string fault_in(const Prepared& answer, const ReplicaPart& part);
std::string fault_in(const Copied& answer, const ReplicaPart& part);
std::string fault_in(const Saved& answer, const ReplicaPart& part);
std::string fault_in(const Evaluated& answer, const ReplicaPart& part);
std::string fault_in(const TracedActions& actions, const ReplicaPart& part);
std::string fault_in(const Tapped& tapped, const ReplicaPart& part);
std::string fault_in(const ParameterHistograms& histograms, const ReplicaPart& part);
std::string fault_in(const Heartbeat& beat);
std::string fault_in(const Rejoin& message);
/// Why a message with actions of any replica is impossible; empty if it is possible.
std::string fault_in(const TracedActions& actions, int num_ranks, int num_chunks);
/// Why an order to the stage with this incarnation is impossible; empty if it is possible.
std::string fault_in(const EnterConfiguration& order, std::uint64_t incarnation);
std::string fault_in(const WarmUp& order);

}  // namespace troupe::actors
