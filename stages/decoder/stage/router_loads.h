#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stages/stage/router_load.h"
#include "stages/stage/stage_spec.h"
#include "tensor/device/ops.h"

namespace troupe::stages {

/// What the routers of a stage's layers have done in a step, read from where its chunks add it up.
class RouterLoads {
 public:
  /// `size` numbers of each layer (DecoderBlock::load_size()). Nothing is allocated of a model
  /// without experts, or a stage that does not train.
  RouterLoads(const StageSpec& spec, std::int64_t size, tensor::Device& device);
  /// Bytes that it allocates.
  static std::size_t bytes(const StageSpec& spec, std::int64_t size);
  std::size_t allocated() const { return memory_.bytes(); }

  std::span<const RouterLoad> all() const { return loads_; }
  /// Reads those of all chunks, in their order (Chunk::router_loads()), which the stream has run.
  template <typename Chunks>
  void read(tensor::Stream& stream, const Chunks& chunks) {
    if (loads_.empty()) return;
    read_ = 0;
    for (const auto& chunk : chunks) copy(stream, chunk.router_loads());
    stream.synchronize();
    take();
  }

 private:
  void copy(tensor::Stream& stream, const tensor::Tensor& sums);
  void take();

  const std::int64_t size_;
  tensor::Ops& ops_;
  std::vector<RouterLoad> loads_;
  const tensor::Buffer memory_;  ///< pinned
  std::int64_t read_ = 0;
};

}  // namespace troupe::stages
