#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/topology/reports/clock_ahead.h"

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

/// Whose clock a rank's times are of.
struct RankClock {
  std::string host;
  std::optional<ClockAhead> measured = {};  ///< ActionsTraced::clock
};
/// How far the clocks of the ranks' hosts are ahead of that of the first rank's host. What goes
/// from one host to another bounds the difference of their clocks from one side, what comes back
/// from the other: the messages of a step, and the round trips by which clocks were measured. The
/// tightest bounds, by way of other hosts too, count, and the middle between them is taken. A host
/// of which nothing is known is left out.
std::map<int, ClockAhead> clocks_ahead(const std::vector<TracedMessage>& messages,
                                       const std::map<int, RankClock>& ranks);
/// Sets times of a rank back, from its host's clock to that of the first rank's host.
void set_back(std::vector<ActionsTraced::Action>& actions, double seconds);
void set_back(std::vector<ActionsTraced::Collective>& collectives, double seconds);

}  // namespace troupe::actors
