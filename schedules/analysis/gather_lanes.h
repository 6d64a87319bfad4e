#pragma once

#include <array>
#include <map>
#include <set>
#include <vector>

#include "schedules/analysis/costs.h"
#include "schedules/plan/action.h"

namespace troupe::schedules {

/// A gather of one unit of a chunk's weights.
struct Gather {
  int chunk = 0;
  int unit = 0;  ///< of the chunk, first layers first
  bool backward = false;
  double start = 0;
  double end = 0;
};

/// What one rank gathers of divided weights, on paper. As in the runtime, forwards and backwards
/// have a lane each, in which gathers follow one another in the order of the actions. A lane has
/// room for the unit that is computed with and those ahead of it, and the units of the rank's
/// chunks have these rooms in turn: a gather starts when the one before it has ended and the unit
/// whose room it takes is no longer read. A unit that its room still has is not gathered again.
class GatherLanes {
 public:
  explicit GatherLanes(const Gathering& gathering);

  /// How long an action waits that starts at `start` and would take `length` if all weights were
  /// there: equal parts, one for each unit, each of which starts when its unit is there. `costs`
  /// are those of its chunk. Actions of a lane come in order.
  double wait_of(const Action& action, double start, double length, const GatherCosts& costs);
  const std::vector<Gather>& gathers() const { return gathers_; }

 private:
  struct Lane {
    /// The unit, of all of the rank, that a room has, and when it is no longer read.
    struct Room {
      int unit = -1;
      double released = 0;
    };
    double free = 0;  ///< when its last gather ends
    std::size_t last_read = 0;
    std::vector<Room> rooms;
  };
  /// Gathers the unit if need be. Returns its room.
  Lane::Room& room_of(Lane& lane, const Gather& gather, double length);

  Gathering gathering_;
  std::array<Lane, 2> lanes_;
  std::map<int, int> number_of_chunk_;  // among the rank's, in the order of their first forwards
  std::set<int> kept_;                  // units that are gathered for good
  std::vector<Gather> gathers_;
};

}  // namespace troupe::schedules
