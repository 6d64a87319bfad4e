#include "schedules/planner/memory_estimate.h"

#include <algorithm>
#include <cmath>

namespace troupe::schedules {
namespace {

/// Context, libraries and their scratch.
constexpr double kFixedBytes = 600.0 * (1 << 20);
/// Logits of the head are in memory by parts of this size, and their gradients.
constexpr double kLogitsBytes = 256.0 * (1 << 20);

/// `parameters` are those that a replica computes with, `all` those that all of them have: what
/// they divide is these, because experts that replicas share out are divided among fewer of them.
double state_bytes(const Work& work, double parameters, double all) {
  using Division = Work::Division;
  const double slice = all / std::max(1, work.dp / work.instances);
  const auto kept = [&](bool is_divided) { return is_divided ? slice : parameters; };
  return 4 * kept(work.division == Division::optim_grads_params) +
         4 * kept(work.reduces_every_microbatch) + 8 * kept(work.division != Division::none) +
         work.element_bytes * parameters;
}

/// What the forward of one microbatch keeps of a layer.
double layer_bytes(const Work& work, Work::Recompute recompute) {
  const double t = work.tp, e = work.element_bytes, tokens = static_cast<double>(work.tokens());
  const double hidden = static_cast<double>(work.hidden) / (work.sequence_parallel ? t : 1);
  const double heads = static_cast<double>(work.heads * work.head_width) / t;
  const double keys = static_cast<double>(work.kv_heads * work.head_width) / t;
  // Of experts the most: that all rows of the replicas which share them out come to one of them.
  const double routed = work.routed() * static_cast<double>(work.chosen_experts * work.ep);
  const double rows = routed * static_cast<double>(work.hidden) / (work.whole_experts ? t : 1);
  const double inner = (1 - work.routed()) * static_cast<double>(work.feed_forward) +
                       routed * static_cast<double>(work.expert_width);
  const double wide = work.gates * inner / t;
  switch (recompute) {
    case Work::Recompute::full:
      return e * tokens * hidden;
    case Work::Recompute::output:
      return e * tokens * (2 * hidden + 2 * (heads + keys) + wide + rows);
    case Work::Recompute::selective:
      return e * tokens * (4 * hidden + heads + 2 * keys + 2 * wide + rows);
    case Work::Recompute::none:
      break;
  }
  return e * tokens * (4 * hidden + 2 * (heads + keys) + 2 * wide + rows);
}

/// Chunk-microbatches that a stage holds.
double held_chunks(const Work& work, int chunks, Held held, int stage) {
  const int p = work.pp, m = work.microbatches;
  if (held == Held::all) return 1.0 * m * chunks;
  if (held == Held::one_f_one_b || chunks == 1) return std::min(p - stage, m);
  return std::min(2 * (p - 1 - stage) + (chunks - 1) * p + 1, m * chunks);
}

}  // namespace

double estimate_memory(const Work& work, const std::vector<int>& layers, int chunks, Held held) {
  const std::vector<ChunkWork> all = chunks_of(layers);
  Work alone = work;
  alone.ep = 1;
  double most = 0;
  for (const int stage : {0, work.pp - 1}) {
    double parameters = 0, parameters_of_all = 0, kept = 0;
    int last = 0;
    for (auto i = static_cast<std::size_t>(stage); i < all.size();
         i += static_cast<std::size_t>(work.pp)) {
      parameters += parameters_of(work, all[i]);
      parameters_of_all += parameters_of(alone, all[i]);
      kept += all[i].layers * layer_bytes(work, work.recompute);
      last = all[i].layers;
    }
    const double of_chunk = kept / chunks;
    const double boundary = layer_bytes(work, Work::Recompute::full);
    const double scratch = last > 0 ? 1.5 * layer_bytes(work, Work::Recompute::none) : 0;
    const double logits = all.back().head && stage == work.pp - 1 ? kLogitsBytes : 0;
    most = std::max(most, state_bytes(work, parameters, parameters_of_all) + scratch + logits +
                              held_chunks(work, chunks, held, stage) * (of_chunk + boundary));
  }
  return most + kFixedBytes;
}

}  // namespace troupe::schedules
