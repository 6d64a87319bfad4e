#pragma once

#include <cstddef>

#include "stages/model/sharding.h"

namespace troupe::stages {

/// Which activations of decoder layers a backward computes again, instead of keeping them since the
/// forward (arXiv 2205.05198; the names are Megatron-core's). The numbers of a step do not depend
/// on it, bit for bit.
struct Recompute {
  enum class Mode {
    none,
    selective,  ///< the core of attention, from rotated queries and keys, and values
    output,     ///< the outputs of norms and of the activation, from their inputs
    full,       ///< whole layers, from the input of the first
  };
  /// Which layers of a chunk `full` computes again.
  enum class Method {
    uniform,  ///< all, in groups of num_layers, each group from its input
    block,    ///< the first num_layers, each from its own input; the others keep everything
  };
  Mode mode = Mode::none;
  Method method = Method::uniform;
  int num_layers = 1;
  /// Whether shards that hold the same tokens keep an equal part of each layer's input that `full`
  /// keeps, and gather it. Sharding must not be sequence parallel, where they hold different ones.
  bool distribute_saved_activations = false;
  /// Activation slots of each chunk, the first ones, that keep everything.
  int kept_microbatches = 0;
  bool operator==(const Recompute&) const = default;
};

// Layers are counted from the first of the chunk.

/// Whether anything of the layer is computed again.
bool is_recomputed(const Recompute& recompute, std::size_t layer);
/// The first layer of the group that `full` computes again together with this one.
std::size_t first_of_group(const Recompute& recompute, std::size_t layer);
/// Whether the layer is the last of such a group in a chunk of `layers`.
bool ends_group(const Recompute& recompute, std::size_t layer, std::size_t layers);
/// The most layers of a chunk of `layers` that are computed again before the gradients of the last
/// of them.
std::size_t largest_group(const Recompute& recompute, std::size_t layers);
/// Whether the layer's input is kept from the forward on.
bool keeps_input(const Recompute& recompute, std::size_t layer);
/// Whether shards keep parts of inputs.
bool distributes_inputs(const Recompute& recompute, const Sharding& sharding);

}  // namespace troupe::stages
