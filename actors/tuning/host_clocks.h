#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "actors/messages/messages.h"

namespace troupe::actors {

/// What the ranks did in a step, with times of the clocks of their hosts.
using TracedRanks = std::map<int, std::vector<ActionsTraced::Action>>;

/// A message from one rank to another in a traced step.
struct TracedMessage {
  int from = 0, to = 0;
  double sent_s = 0;    ///< on the clock of the sender's host
  double wanted_s = 0;  ///< when the other rank began to wait for it, on that one's clock
  double came_s = 0;    ///< when it went on with the message
};
std::vector<TracedMessage> messages_between(const TracedRanks& ranks);

/// How far a host's monotonic clock is ahead of another's; each counts from its machine's start.
struct ClockAhead {
  double seconds = 0;
  double error_s = 0;  ///< by which `seconds` may be wrong
};
/// How far the clocks of the ranks' hosts are ahead of that of the first rank's host. It follows
/// from the messages of the step: those that went from one host to another bound the difference
/// from one side, those that came back from the other, and the middle is taken, as NTP does.
/// `hosts` by rank. A host with no such messages, not even by way of others, is left out.
std::map<int, ClockAhead> clocks_ahead(const std::vector<TracedMessage>& messages,
                                       const std::map<int, std::string>& hosts);
/// Sets times of a rank back, from its host's clock to that of the first rank's host.
void set_back(std::vector<ActionsTraced::Action>& actions, double seconds);
void set_back(std::vector<ActionsTraced::Collective>& collectives, double seconds);

}  // namespace troupe::actors
