#include "stages/stage/recompute.h"

#include <algorithm>

namespace troupe::stages {
namespace {

std::size_t group_size(const Recompute& recompute) {
  const bool is_grouped =
      recompute.mode == Recompute::Mode::full && recompute.method == Recompute::Method::uniform;
  return is_grouped ? static_cast<std::size_t>(recompute.num_layers) : 1;
}

}  // namespace

bool is_recomputed(const Recompute& recompute, std::size_t layer) {
  if (recompute.mode != Recompute::Mode::full || recompute.method == Recompute::Method::uniform)
    return recompute.mode != Recompute::Mode::none;
  return layer < static_cast<std::size_t>(recompute.num_layers);
}

std::size_t first_of_group(const Recompute& recompute, std::size_t layer) {
  return layer - layer % group_size(recompute);
}

bool ends_group(const Recompute& recompute, std::size_t layer, std::size_t layers) {
  return layer + 1 == layers || (layer + 1) % group_size(recompute) == 0;
}

std::size_t largest_group(const Recompute& recompute, std::size_t layers) {
  return recompute.mode == Recompute::Mode::none ? 0 : std::min(group_size(recompute), layers);
}

bool keeps_input(const Recompute& recompute, std::size_t layer) {
  return first_of_group(recompute, layer) == layer;
}

bool distributes_inputs(const Recompute& recompute, const Sharding& sharding) {
  return recompute.mode == Recompute::Mode::full && recompute.distribute_saved_activations &&
         sharding.size > 1;
}

}  // namespace troupe::stages
