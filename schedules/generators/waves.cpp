#include <algorithm>

#include "schedules/generators/families.h"
#include "schedules/plan/counted.h"

namespace troupe::schedules {
namespace {

/// An action and the slot it has in a drawing: these orders are defined by pictures.
struct Slotted {
  int slot;
  Action action;
};

/// The actions in the order of their slots. No two actions share a slot.
std::vector<Action> by_slot(std::vector<Slotted> slotted) {
  std::ranges::sort(slotted, {}, &Slotted::slot);
  std::vector<Action> out;
  out.reserve(slotted.size());
  for (const Slotted& entry : slotted) out.push_back(entry.action);
  return out;
}

/// One wave of a conflict-free pipeline, forward and backward taking a slot each: a microbatch goes
/// down `depth` stages and back, and the next one follows two slots later. Slots count from the
/// wave's first forward, `stage` from the end at which the wave begins.
int forward_slot(int stage, int microbatch) {
  return stage + 2 * microbatch;
}

int backward_slot(int stage, int microbatch, int depth) {
  return 2 * depth - 1 - stage + 2 * microbatch;
}

/// Chimera on D ranks with N microbatches. A unit takes D/2 microbatches down each pipeline; if F
/// and B take one slot each, the two never meet. The next unit begins 2D slots later and fills the
/// bubbles of this one. Rank r is stage r of one pipeline and, as chunk 2D-1-r, stage D-1-r of the
/// other.
Plan generate_chimera(const ScheduleShape& shape) {
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

std::string check_hanayo(const ScheduleShape& shape) {
  const std::string wrong = check_shape(shape);
  if (!wrong.empty() || shape.chunks % 2 == 0) return wrong;
  return concat("hanayo goes back and forth over the stages in waves of 2 chunks, but chunks = ",
                shape.chunks, " is odd; the nearest valid number of chunks is ", shape.chunks + 1);
}

/// W = v/2 waves of 2 chunks per rank. A unit takes p microbatches through all waves; if F and B
/// take one slot each, they never meet on a rank. The next unit begins 2pv slots later and fills
/// the bubbles of this one. With one wave this is Chimera over 2p ranks, folded in the middle.
Plan generate_hanayo(const ScheduleShape& shape) {
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

Generator chimera() {
  return {.name = "chimera",
          .source = "Chimera, units concatenated directly: arXiv 2107.06925",
          .chunks = 2,
          .copies = 2,
          .check = [](const ScheduleShape& shape) { return check_two_pipelines("chimera", shape); },
          .generate = generate_chimera};
}

Generator hanayo() {
  return {.name = "hanayo",
          .source = "Hanayo, a wave-like pipeline: arXiv 2308.15762",
          .chunks = 2,
          .check = check_hanayo,
          .generate = generate_hanayo};
}

}  // namespace troupe::schedules
