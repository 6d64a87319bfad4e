#pragma once

#include <string>

#include "stages/model/sharding.h"
#include "stages/stage/stage.h"

// How a model is divided among ranks that compute with it and do not train.

namespace troupe::stages {

/// What one rank has of a model: the layers of one of `pp` pipeline stages, of which it is one of
/// `tp` tensor-parallel shards.
struct ModelPart {
  int pp = 1;
  int tp = 1;
  int stage = 0;
  int shard = 0;

  bool is_first() const { return stage == 0; }
  bool is_last() const { return stage == pp - 1; }
  int ranks() const { return pp * tp; }
  /// The shards of a stage are neighbours.
  int rank() const { return stage * tp + shard; }
  Sharding sharding() const { return {.size = tp, .shard = shard}; }
  bool operator==(const ModelPart&) const = default;
};

/// The part of a rank.
ModelPart part_of_rank(int pp, int tp, int rank);

/// The layers of a part. Stages have equal numbers of them as far as may be.
ChunkSpec chunk_of(const ModelConfig& model, const ModelPart& part);

/// Why a model cannot be divided so: an empty string if it can, else one sentence with the nearest
/// valid choice.
std::string check_parts(const ModelConfig& model, int pp, int tp);

}  // namespace troupe::stages
