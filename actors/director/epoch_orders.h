#pragma once

#include <caf/message.hpp>
#include <memory>
#include <set>
#include <vector>

#include "actors/messages/control_plane.h"
#include "actors/messages/interfaces.h"
#include "actors/topology/assembly.h"

namespace troupe::actors {

/// What an epoch means for each of its members. A member of ten thousand is told only of those it
/// has to do with and of its own state moves: every message stays small, and all together grow with
/// the members, not with their square. Immutable.
class EpochOrders {
 public:
  /// `whole` has all members and moves. Makes the plan, whose digest the ranks compare theirs with.
  EpochOrders(const RunSpec& spec, EnterEpoch whole);

  const Epoch& epoch() const { return whole_.epoch; }
  /// The step that the epoch starts after.
  std::int64_t step() const { return whole_.start.state.step; }
  /// Each one Peers, to be sent before begin_of(). Of ranks, and of members beyond them. What many
  /// are told is made once.
  std::vector<caf::message> peers_of(int member) const;
  BeginEpoch begin_of(int member) const;
  /// Sends a member its Peers and its BeginEpoch.
  void send(ControlActor& from, const StageRef& to, int member) const;

 private:
  bool shares_replicas() const;
  std::set<int> known_to(int member) const;
  std::vector<caf::message> tell_of(const std::set<int>& ranks) const;

  const RunSpec spec_;
  const EnterEpoch whole_;
  const Assembly assembly_;
  std::vector<std::vector<StateMove>> moves_;        ///< by member
  std::vector<std::vector<caf::message>> replicas_;  ///< by stage, where they are many; else empty
};

}  // namespace troupe::actors
