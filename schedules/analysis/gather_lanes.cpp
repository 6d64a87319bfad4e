#include "schedules/analysis/gather_lanes.h"

#include <algorithm>

namespace troupe::schedules {

GatherLanes::GatherLanes(const Gathering& gathering) : gathering_(gathering) {
  for (Lane& lane : lanes_) lane.rooms.resize(1 + static_cast<std::size_t>(gathering.ahead));
}

double GatherLanes::wait_of(const Action& action, double start, double length,
                            const GatherCosts& costs) {
  const bool backward = action.op != Op::F;
  const double cost = backward ? costs.backward : costs.forward;
  // A weight-gradient reads no weights, and a backward those of its forward if they are kept.
  if (cost == 0 || action.op == Op::W || (backward && !gathering_.reshards)) return 0;
  Lane& lane = lanes_[backward ? 1 : 0];
  const int units = gathering_.units;
  double end = start;
  for (int i = 0; i < units; ++i) {
    const Gather gather{
        .chunk = action.chunk, .unit = backward ? units - 1 - i : i, .backward = backward};
    Lane::Room& room = room_of(lane, gather, cost / units);
    end = std::max(end, lane.free) + length / units;
    room.released = end;
  }
  return std::max(0.0, end - start - length);
}

GatherLanes::Lane::Room& GatherLanes::room_of(Lane& lane, const Gather& gather, double length) {
  const int chunk =
      number_of_chunk_.emplace(gather.chunk, static_cast<int>(number_of_chunk_.size()))
          .first->second;
  const int unit = chunk * gathering_.units + gather.unit;
  // Kept units have rooms of their own; those here then only say how far ahead gathers are.
  const std::size_t number =
      gathering_.reshards ? static_cast<std::size_t>(unit) : ++lane.last_read;
  Lane::Room& room = lane.rooms[number % lane.rooms.size()];
  const bool has_it = gathering_.reshards ? room.unit == unit : !kept_.insert(unit).second;
  if (has_it) return room;
  room.unit = unit;
  const double start = std::max(lane.free, room.released);
  lane.free = start + length;
  gathers_.push_back(gather);
  gathers_.back().start = start;
  gathers_.back().end = lane.free;
  return room;
}

}  // namespace troupe::schedules
