#pragma once

#include "actors/director/status_board.h"
#include "actors/messages/messages.h"
#include "actors/monitors/hub.h"

namespace troupe::actors {

/// Shows a heartbeat on the status board and publishes it to the monitors, if its sender has a rank
/// in the configuration. `step` is the last committed one.
void show_activity(const Heartbeat& beat, const Configuration& configuration, std::int64_t step,
                   Hub& hub, StatusBoard& board);

}  // namespace troupe::actors
