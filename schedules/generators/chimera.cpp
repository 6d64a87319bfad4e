#include "schedules/generators/families.h"
#include "schedules/generators/slots.h"

namespace troupe::schedules {
namespace {

std::string check(const ScheduleShape& shape) {
  const std::string wrong = check_chunks("chimera", shape, 2);
  if (!wrong.empty()) return wrong;
  if (shape.stages % 2 != 0) {
    return "chimera runs two pipelines against each other over an even number of stages, but "
           "stages = " +
           std::to_string(shape.stages) + "; the nearest valid number of stages is " +
           std::to_string(shape.stages + 1);
  }
  return check_even_microbatches("chimera", shape);
}

/// Chimera on D ranks with N microbatches. A unit takes D/2 microbatches down each pipeline; if F
/// and B take one slot each, the two never meet. The next unit begins 2D slots later and fills the
/// bubbles of this one. Rank r is stage r of one pipeline and, as chunk 2D-1-r, stage D-1-r of the
/// other.
Plan generate(const ScheduleShape& shape) {
  Plan plan = waved("chimera", shape);
  plan.num_copies = 2;
  const int D = shape.stages;
  const int half = shape.microbatches / 2;
  for (int r = 0; r < D; ++r) {
    std::vector<Slotted> slotted;
    for (int i = 0; i < half; ++i) {
      const int begin = i / (D / 2) * 2 * D;
      const int in_unit = i % (D / 2);
      for (const int stage : {r, D - 1 - r}) {
        const int copy = stage == r ? 0 : 1;
        const int chunk = copy * D + stage;
        const int microbatch = copy * half + i;
        slotted.push_back({begin + forward_slot(stage, in_unit), {chunk, Op::F, microbatch}});
        slotted.push_back({begin + backward_slot(stage, in_unit, D), {chunk, Op::B, microbatch}});
      }
    }
    plan.actions[r] = by_slot(std::move(slotted));
  }
  return plan;
}

}  // namespace

Generator chimera() {
  return {.name = "chimera",
          .source = "Chimera, units concatenated directly: arXiv 2107.06925",
          .chunks = 2,
          .copies = 2,
          .check = check,
          .generate = generate};
}

}  // namespace troupe::schedules
