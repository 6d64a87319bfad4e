#include "schedules/generators/families.h"
#include "schedules/generators/slots.h"

namespace troupe::schedules {
namespace {

std::string check(const ScheduleShape& shape) {
  const std::string wrong = check_shape(shape);
  if (!wrong.empty() || shape.chunks % 2 == 0) return wrong;
  return "hanayo goes back and forth over the stages in waves of 2 chunks, but chunks = " +
         std::to_string(shape.chunks) + " is odd; the nearest valid number of chunks is " +
         std::to_string(shape.chunks + 1);
}

/// W = v/2 waves of 2 chunks per rank. A unit takes p microbatches through all waves; if F and B
/// take one slot each, they never meet on a rank. The next unit begins 2pv slots later and fills
/// the bubbles of this one. With one wave this is Chimera over 2p ranks, folded in the middle.
Plan generate(const ScheduleShape& shape) {
  Plan plan = waved("hanayo", shape);
  const int p = shape.stages;
  const int depth = plan.num_chunks();
  std::vector<std::vector<Slotted>> slotted(p);
  for (int chunk = 0; chunk < depth; ++chunk) {
    std::vector<Slotted>& rank = slotted[plan.rank_of_chunk[chunk]];
    for (int i = 0; i < shape.microbatches; ++i) {
      const int begin = i / p * 2 * depth;
      rank.push_back({begin + forward_slot(chunk, i % p), {chunk, Op::F, i}});
      rank.push_back({begin + backward_slot(chunk, i % p, depth), {chunk, Op::B, i}});
    }
  }
  for (int r = 0; r < p; ++r) plan.actions[r] = by_slot(std::move(slotted[r]));
  return plan;
}

}  // namespace

Generator hanayo() {
  return {.name = "hanayo",
          .source = "Hanayo, a wave-like pipeline: arXiv 2308.15762",
          .chunks = 2,
          .check = check,
          .generate = generate};
}

}  // namespace troupe::schedules
