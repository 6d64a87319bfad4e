#pragma once

#include "actors/topology/program.h"
#include "stages/stage/stage.h"
#include "transport/edges/channel.h"

namespace troupe::actors {

/// The key of the message that an instruction's chunk receives: its input activation, or the
/// gradient of its output.
transport::MessageKey into(const Instruction& next, std::uint64_t step,
                           transport::Direction direction);
/// The key of the message that an instruction's chunk sends: its output to the chunk after it, or
/// the gradient of its input to the chunk before it.
transport::MessageKey out_of(const Instruction& next, std::uint64_t step,
                             transport::Direction direction);

}  // namespace troupe::actors
