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
