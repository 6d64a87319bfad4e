#include "schedules/planner/work.h"

#include <algorithm>

namespace troupe::schedules {
namespace {

double of_attention(const Work& work) {
  return 4.0 * static_cast<double>(work.seq_len) * static_cast<double>(work.heads) *
         static_cast<double>(work.head_width) * static_cast<double>(work.layers);
}
double of_matrices(const Work& work) {
  return 2.0 * work.active_parameters_of_layer() * static_cast<double>(work.layers);
}

}  // namespace

int Work::devices() const {
  if (widths.empty()) return tp * pp * dp;
  int all = 0;
  for (const Width& width : widths) all += width.tp * width.dp;
  return all;
}

Work Work::of_stage(int stage) const {
  if (widths.empty()) return *this;
  Work own = *this;
  own.widths.clear();
  const Width width = widths[static_cast<std::size_t>(stage)];
  own.micro = micro * dp / width.dp;
  own.tp = width.tp;
  own.dp = width.dp;
  // The second replica of the stage lies behind all of the first replicas.
  for (const Width& other : widths) own.apart += other.tp;
  if (own.dp > 1) return own;
  own.division = Division::none;
  own.reduces_every_microbatch = false;
  return own;
}

double model_flop_per_token(const Work& work) {
  return 3 * (of_matrices(work) + of_attention(work) + 2 * work.parameters_of_vocabulary());
}

double executed_flop_per_token(const Work& work) {
  const double model = model_flop_per_token(work);
  if (work.recompute == Work::Recompute::selective) return model + of_attention(work);
  if (work.recompute != Work::Recompute::full) return model;
  const double layers = static_cast<double>(work.layers);
  const double again =
      work.recomputed_layers == 0 ? layers : std::min<double>(work.recomputed_layers, layers);
  return model + (of_matrices(work) + of_attention(work)) * again / layers;
}

}  // namespace troupe::schedules
