#pragma once

#include <memory>

#include "stages/layers/decoder_block.h"
#include "stages/layers/embedding.h"
#include "stages/layers/head_loss.h"

namespace troupe::stages {

/// The layer objects that all chunks of a stage share.
struct Layers {
  Embedding embedding;
  DecoderBlock block;
  std::unique_ptr<HeadLoss> head;  ///< null if no chunk has the head
  tensor::Ops* ops;                ///< for chunks that hold nothing and copy their input
  const Streams* streams;
};

}  // namespace troupe::stages
