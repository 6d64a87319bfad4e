#pragma once

#include "actors/messages/messages.h"
#include "actors/monitors/event.h"

namespace troupe::actors {

/// What a worker tells the director, as monitors are told it.
TensorTapped to_event(const Tapped& tapped);
ActionsTraced to_event(const TracedActions& actions);

}  // namespace troupe::actors
