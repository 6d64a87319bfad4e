#pragma once

#include <memory>
#include <vector>

#include "stages/decoder/layers/decoder_block.h"
#include "stages/decoder/layers/embedding.h"
#include "stages/decoder/layers/head_loss.h"
#include "stages/decoder/layers/layer_dropout.h"
#include "stages/model/sharding.h"

namespace troupe::stages {

/// The layer objects that all chunks of a stage share.
struct Layers {
  Embedding embedding;
  DecoderBlock block;
  /// Its forwards belong to backwards, which compute again with it: they run on the backward's
  /// stream, group and scratch. Null if nothing is computed again.
  std::unique_ptr<DecoderBlock> recompute_block;
  std::unique_ptr<HeadLoss> head;       ///< null if no chunk has the head
  std::vector<std::size_t> attentions;  ///< attention_numbers() of the model
  std::vector<char> routed;             ///< routed_layers() of the model
  LayerDropout dropout;
  tensor::Ops* ops;  ///< for chunks that copy their input, and slices of edges
  const Streams* streams;
  Sharding sharding;
  Recompute recompute;
  tensor::TensorParallel parallel;
};

}  // namespace troupe::stages
