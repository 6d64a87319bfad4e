#pragma once

#include "actors/messages/messages.h"
#include "actors/monitors/event.h"

namespace troupe::actors {

/// Turns a worker's message into the event that is published to monitors.
TensorTapped to_event(const Tapped& tapped);
ParametersSeen to_event(const ParameterHistograms& histograms);
ActionsTraced to_event(const TracedActions& actions);

}  // namespace troupe::actors
