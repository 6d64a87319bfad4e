#pragma once

#include <span>
#include <vector>

#include "stages/activations.h"
#include "stages/parameters.h"

namespace troupe::stages {

/// The packed matrices of one chunk.
struct PackedChunk {
  std::vector<PackedBlock> blocks;
  void* head = nullptr;
};
std::vector<PackedChunk> lay_out_packed(std::span<const ChunkSpec> chunks, const Layers& layers,
                                        Arena& arena);

/// The layers of one chunk in order, over numbered slots. Its calls are those of Stage.
class Chunk {
 public:
  /// `layers` and the memory of all else outlive the chunk.
  Chunk(const ChunkSpec& spec, const Layers& layers, const Parameters& parameters,
        const PackedChunk& packed, ChunkActivations activations);

  void pack() const;
  /// `loss_scale` multiplies the gradients that start from this microbatch's loss.
  ForwardResult forward(int slot, const tensor::Tensor& input, const tensor::Tensor& output,
                        std::span<const std::int32_t> ids, std::span<const std::int32_t> targets,
                        float loss_scale);
  ForwardResult evaluate(const tensor::Tensor& input, const tensor::Tensor& output,
                         std::span<const std::int32_t> ids, std::span<const std::int32_t> targets);
  void backward_input(int slot, int deferred, const tensor::Tensor& output_gradient,
                      const tensor::Tensor& input_gradient);
  void backward_weight(int slot, int deferred);
  void backward(int slot, const tensor::Tensor& output_gradient,
                const tensor::Tensor& input_gradient);

 private:
  void run_blocks(ChunkSlot& slot, const tensor::Tensor& input, const tensor::Tensor& output,
                  std::span<const std::int32_t> ids) const;
  void block_input_gradient(const ChunkSlot& slot, const DeferredSlot& deferred,
                            std::size_t i) const;
  void block_weight_gradient(const ChunkSlot& slot, const DeferredSlot& deferred,
                             std::size_t i) const;
  void embedding_weight_gradient(const ChunkSlot& slot) const;
  /// Gradient of block i's output.
  const tensor::Tensor& dy(const ChunkSlot& slot, const DeferredSlot& deferred,
                           std::size_t i) const;

  ChunkSpec spec_;
  const Layers* layers_;
  std::vector<BlockWeights> blocks_;
  std::vector<BlockParameters> block_gradients_;
  HeadWeights head_;
  HeadParameters head_gradients_;
  tensor::Tensor table_;  ///< [V, C], of the embedding
  tensor::Tensor table_gradient_;
  ChunkActivations activations_;
};

}  // namespace troupe::stages
