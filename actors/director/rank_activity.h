#pragma once

#include "actors/director/status_board.h"
#include "actors/messages/messages.h"
#include "actors/monitors/hub.h"

namespace troupe::actors {

/// Shows what a heartbeat says on the board, if its sender has a rank in the epoch, and tells the
/// monitors. `step` is the last committed one.
void show_activity(const Heartbeat& beat, const Epoch& epoch, std::int64_t step, Hub& hub,
                   StatusBoard& board);

}  // namespace troupe::actors
