#pragma once

#include <cstdint>
#include <vector>

#include "actors/topology/assembly.h"
#include "transport/edges/channel.h"

namespace troupe::actors {

/// One action of a rank with everything the interpreter would otherwise look up: which buffers it
/// needs and which it frees. Fixed for a configuration.
struct Instruction {
  schedules::Op op = schedules::Op::F;
  int chunk = 0;         ///< number among the chunks of the stage
  int global_chunk = 0;  ///< number among the chunks of the pipeline
  int microbatch = 0;
  int slot = 0;                 ///< activation slot, held from F to B or W
  int deferred = 0;             ///< slot for what I keeps for W
  bool first = false;           ///< the model's first chunk: reads tokens, has no input
  bool last = false;            ///< the model's last chunk: computes the loss, has no output
  bool last_gradients = false;  ///< the chunk's last weight gradients of the step
  bool overlaps_next = false;   ///< a forward that runs together with the backward after it
  bool ahead = false;           ///< may run before it is known that the step's weights stand
  bool input_ahead = false;     ///< may not, but its message may come before
};

/// A rank's plan, compiled: slots are numbered statically, so that running it decides and allocates
/// nothing.
using Program = std::vector<Instruction>;
/// The computations of a stage that an operation of a plan asks for.
stages::Pass pass_of(schedules::Op op);
/// The key of the message that an instruction's chunk receives: its input activation, or the
/// gradient of its output.
transport::MessageKey into(const Instruction& next, std::uint64_t step,
                           transport::Direction direction);
/// The key of the message that an instruction's chunk sends: its output to the chunk after it, or
/// the gradient of its input to the chunk before it.
transport::MessageKey out_of(const Instruction& next, std::uint64_t step,
                             transport::Direction direction);
Program compile(const RankAssembly& part, const std::vector<schedules::Action>& actions);
/// The program of a rank's training.
Program compile_training(const RankAssembly& part);

}  // namespace troupe::actors
