#pragma once

#include <cstdint>
#include <string>

#include "actors/messages/messages.h"

// Whether what comes over the wire can be at all, before a number of it is used. A worker that was
// damaged, or another program with the run's token, may send anything. Late is not wrong: a message
// of an earlier epoch is ignored by whom it reaches.

namespace troupe::actors {

/// What the answers of a replica's stages have to do with.
struct ReplicaPart {
  std::uint32_t epoch = 0;
  int replica = 0;
  int num_stages = 1;
  int num_ranks = 1;
  int num_chunks = 1;
  std::int64_t committed = 0;  ///< steps
};

// Each says why the message cannot be; nothing where it can.
std::string fault_in(const Ready& answer, const ReplicaPart& part);
std::string fault_in(const Prepared& answer, const ReplicaPart& part);
std::string fault_in(const Saved& answer, const ReplicaPart& part);
std::string fault_in(const Evaluated& answer, const ReplicaPart& part);
std::string fault_in(const TracedActions& actions, const ReplicaPart& part);
std::string fault_in(const Tapped& tapped, const ReplicaPart& part);
std::string fault_in(const Heartbeat& beat);
/// What cannot be in a message of actions, of any replica.
std::string fault_in(const TracedActions& actions, int num_ranks, int num_chunks);
/// What cannot be in an order to the stage with this incarnation.
std::string fault_in(const EnterEpoch& order, std::uint64_t incarnation);
std::string fault_in(const WarmUp& order);

}  // namespace troupe::actors
