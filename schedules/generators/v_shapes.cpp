#include "schedules/generators/families.h"
#include "schedules/generators/v_blocks.h"

namespace troupe::schedules {
namespace {

/// The block of rank i of d. The actions go round the V so that the lifespans of activations, and
/// with them the peaks, are the same on all ranks.
Block half_block(int i, int d) {
  const int delta = d % 2 == 0 ? 3 : 0;
  return {2 * i, 3 * d - 2 - i, 3 * d - 1 + delta + 2 * i, 6 * d - 2 + delta - i};
}

Block min_block(int i, int d) {
  const int delta = d % 3 == 0 ? 2 : 0;
  return {i, 2 * d - 1 - i, 2 * d + delta + i, 4 * d - 1 + delta - i};
}

Plan generate(std::string_view kind, const ScheduleShape& shape, Block (*block)(int i, int d)) {
  Plan plan = waved(kind, shape);
  std::vector<Block> blocks;
  for (int r = 0; r < shape.stages; ++r) blocks.push_back(block(r, shape.stages));
  plan.actions = squeezed(blocks, shape.microbatches);
  return plan;
}

constexpr std::string_view kSource =
    "controllable memory: arXiv 2405.15362, squeezed and reordered as in the authors' code";

}  // namespace

Generator v_half() {
  return {
      .name = "v-half",
      .source = kSource,
      .chunks = 2,
      .check = [](const ScheduleShape& shape) { return check_chunks("v-half", shape, 2); },
      .generate = [](const ScheduleShape& shape) { return generate("v-half", shape, half_block); }};
}

Generator v_min() {
  return {
      .name = "v-min",
      .source = kSource,
      .chunks = 2,
      .check = [](const ScheduleShape& shape) { return check_chunks("v-min", shape, 2); },
      .generate = [](const ScheduleShape& shape) { return generate("v-min", shape, min_block); }};
}

}  // namespace troupe::schedules
