#pragma once

#include <span>
#include <vector>

#include "stages/decoder/layers/layers.h"
#include "stages/stage/stage.h"

// Where activations lie that a forward discards and a backward computes again (recompute.h). Each
// function returns them by layer of a chunk; what a layer keeps is empty.

namespace troupe::stages {

/// Whether some of the chunk's slots discard anything.
bool discards(const ChunkSpec& chunk, const Recompute& recompute);

/// The memory in which forwards have what they discard, shared by all layers in turn. `scratch` is
/// that of forwards. One vector a chunk.
std::vector<std::vector<BlockActivations>> lay_out_discarded(std::span<const ChunkSpec> chunks,
                                                             const Layers& layers,
                                                             const SublayerScratch& scratch,
                                                             Arena& arena);

/// The memory in which backwards compute again, shared by groups of layers in turn.
class RecomputedGroup {
 public:
  /// Without memory: nothing is computed again.
  RecomputedGroup() = default;
  /// `scratch`: that of backwards.
  RecomputedGroup(std::span<const ChunkSpec> chunks, const Layers& layers,
                  const SublayerScratch& scratch, Arena& arena);

  /// For a backward with weights, after which nothing is read.
  std::vector<BlockActivations> of_chunk(const ChunkSpec& chunk) const;
  /// For a deferred slot: what weight gradients read later gets memory of its own.
  std::vector<BlockActivations> of_deferred(const ChunkSpec& chunk, const Layers& layers,
                                            Arena& arena) const;

 private:
  Recompute recompute_;
  SublayerScratch scratch_;
  std::vector<BlockActivations> layers_;  // by place in a group
  /// One more than a group has layers: the gradient of a group's input lies in the `mid` of its
  /// first layer while the group before it is computed again.
  std::vector<tensor::Tensor> mids_;
};

}  // namespace troupe::stages
