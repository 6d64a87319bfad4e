#pragma once

#include <caf/allowed_unsafe_message_type.hpp>

#include "actors/monitors/event.h"
#include "actors/protocol/protocol_events.h"

// What the director is told by the other actors of its process: what has happened, and lines for
// the run's timeline.

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::Event)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::Note)
