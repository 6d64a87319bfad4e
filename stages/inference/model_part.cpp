#include "stages/inference/model_part.h"

#include <fmt/format.h>

#include "tensor/errors/error.h"

namespace troupe::stages {

ModelPart part_of_rank(int pp, int tp, int rank) {
  TROUPE_ASSERT(rank >= 0 && rank < pp * tp);
  return {.pp = pp, .tp = tp, .stage = rank / tp, .shard = rank % tp};
}

ChunkSpec chunk_of(const ModelConfig& model, const ModelPart& part) {
  const auto first_layer = [&](int stage) {
    return static_cast<int>(model.num_hidden_layers * stage / part.pp);
  };
  return {.first_layer = first_layer(part.stage),
          .end_layer = first_layer(part.stage + 1),
          .embedding = part.is_first(),
          .head = part.is_last()};
}

std::string check_parts(const ModelConfig& model, int pp, int tp) {
  if (pp > model.num_hidden_layers)
    return fmt::format("{} pipeline stages for {} layers; at most {} can have one", pp,
                       model.num_hidden_layers, model.num_hidden_layers);
  return check_sharding(model, tp);
}

}  // namespace troupe::stages
