#pragma once

#include <caf/message.hpp>
#include <memory>
#include <set>
#include <vector>

#include "actors/messages/control_plane.h"
#include "actors/messages/interfaces.h"
#include "actors/topology/assembly.h"

namespace troupe::actors {

/// The orders of a configuration for each of its members. A member receives only the members that
/// it communicates with and its own state moves: every message stays small, and all of them
/// together grow with the number of members, not with its square. Immutable.
class ConfigurationOrders {
 public:
  /// Makes the plan; the ranks compare its digest with their own. `whole` has all members and
  /// moves.
  ConfigurationOrders(const RunSpec& spec, EnterConfiguration whole);

  const Configuration& configuration() const { return whole_.configuration; }
  /// The step that the configuration starts after.
  std::int64_t step() const { return whole_.start.state.step; }
  /// The Peers messages for a member, a rank or one beyond the ranks, to be sent before begin_of().
  /// A message for many members is made once.
  std::vector<caf::message> peers_of(int member) const;
  /// The Moves messages for a member, to be sent before begin_of() too.
  std::vector<Moves> moves_of(int member) const;
  BeginConfiguration begin_of(int member) const;
  /// Sends a member its Peers, its Moves and its BeginConfiguration.
  void send(ControlActor& from, const StageRef& to, int member) const;

 private:
  bool shares_replicas() const;
  std::set<int> known_to(int member) const;
  std::vector<caf::message> tell_of(const std::set<int>& ranks) const;

  const RunSpec spec_;
  EnterConfiguration whole_;  ///< without moves and copies, which follow by member
  const Assembly assembly_;
  std::vector<std::vector<StateMove>> moves_;  ///< state moves by member
  std::vector<int> copied_;                    ///< StatePlan::copied
  const std::vector<HostShare> hosts_;         ///< by rank
  CopyRing ring_;                              ///< empty if no rank copies its state
  /// The Peers messages about the replicas of each stage; empty if replicas are few.
  std::vector<std::vector<caf::message>> replicas_;
};

}  // namespace troupe::actors
