#include "actors/worker/step/instruction_messages.h"

#include "tensor/error.h"

namespace troupe::actors {

using schedules::Op;
using transport::Direction;
using transport::MessageKey;

MessageKey into(const Instruction& next, std::uint64_t step, Direction direction) {
  return {step, next.microbatch, next.global_chunk, direction};
}

MessageKey out_of(const Instruction& next, std::uint64_t step, Direction direction) {
  const int to = next.global_chunk + (direction == Direction::forward ? 1 : -1);
  return {step, next.microbatch, to, direction};
}

}  // namespace troupe::actors
