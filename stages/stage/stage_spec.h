#pragma once

#include <cstdint>
#include <vector>

#include "stages/corpus/text/documents.h"
#include "stages/model/model_config.h"
#include "stages/model/sharding.h"
#include "stages/stage/recompute.h"
#include "stages/stage/row_sizes.h"
#include "stages/stage/slices.h"
#include "stages/stage/stage.h"

namespace troupe::stages {

/// What a stage is made for.
struct StageSpec {
  ModelConfig model;
  std::vector<ChunkSpec> chunks;
  Sharding sharding;
  Recompute recompute;     ///< has no effect on a stage that does not train
  std::int64_t micro = 1;  ///< samples per microbatch
  int lanes = 1;           ///< FeedSpec::lanes
  /// What the rows of a lane of packed documents are a multiple of, if all lanes of a microbatch
  /// have as many (FeedSpec::lanes_alike); 0: each has its own, a multiple of the shards.
  int row_multiple = 0;
  std::int64_t seq_len = 0;  ///< tokens per sample, the most of a document
  Documents documents = Documents::joined;
  /// Tokens of the whole step, with padding of documents, whose loss has fewer. Gradients are those
  /// of the mean loss.
  std::int64_t global_tokens = 1;
  std::uint64_t seed = 0;  ///< of dropout
  bool decay_all = false;  ///< weight decay on norms and biases too
  /// If false, there are no gradients, optimizer state or activation slots, and only evaluate() may
  /// be called; always false with a value head.
  bool training = true;
  StateSharding state;  ///< among the replicas
  /// Whether the state before the last update is kept for step_back().
  bool keep_previous = false;
  bool operator==(const StageSpec&) const = default;
  /// The rows of a microbatch.
  RowSizes rows() const {
    return row_sizes(documents, micro * seq_len, row_multiple > 0 ? row_multiple : sharding.size,
                     lanes);
  }
};

/// Bytes that a stage takes: everything that make_transformer_stage allocates.
struct StageMemory {
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;  ///< with what keep_previous and twins keep
  /// Slots, deferred slots and scratch, the products' included, and pinned places for norms and
  /// losses.
  std::int64_t activations = 0;
  std::int64_t packed = 0;
  std::int64_t gathered = 0;  ///< whole weights of few buckets at a time, if weights are divided
  std::int64_t buckets = 0;   ///< the same of gradients
  std::int64_t total() const {
    return weights + gradients + optimizer + activations + packed + gathered + buckets;
  }
  StageMemory& operator+=(const StageMemory& more) {
    weights += more.weights;
    gradients += more.gradients;
    optimizer += more.optimizer;
    activations += more.activations;
    packed += more.packed;
    gathered += more.gathered;
    buckets += more.buckets;
    return *this;
  }
};

}  // namespace troupe::stages
