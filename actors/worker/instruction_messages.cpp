#include "actors/worker/instruction_messages.h"

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

stages::Pass pass_of(Op op) {
  switch (op) {
    case Op::F:
      return stages::Pass::forward;
    case Op::B:
      return stages::Pass::backward;
    case Op::I:
      return stages::Pass::input_gradient;
    case Op::W:
      return stages::Pass::weight_gradient;
  }
  assert_failed("op is an Op", __FILE__, __LINE__);
}

}  // namespace troupe::actors
