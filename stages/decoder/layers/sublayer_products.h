#pragma once

#include <algorithm>
#include <memory>

#include "stages/decoder/layers/arena.h"
#include "stages/decoder/layers/packed_copies.h"
#include "stages/decoder/layers/routed_experts.h"
#include "stages/decoder/layers/sublayer_form.h"
#include "stages/decoder/layers/sublayer_tensors.h"
#include "tensor/parallel/parallel_linear.h"

namespace troupe::stages {

/// The norms and the two products of a sublayer, and the packed form of their matrices: what
/// training and inference have alike.
struct SublayerProducts {
  SublayerForm form;
  Norm norm;
  Norm end_norm;  ///< of what `out` gives; not called if there is none
  /// Null if all layers of the model have experts.
  std::unique_ptr<tensor::ColumnParallelLinear> in;
  std::unique_ptr<tensor::RowParallelLinear> out;
  /// What a layer with experts has instead of both; null if the model has none.
  std::unique_ptr<RoutedExperts> routed;
  /// What adapters add to both; null: nothing.
  std::unique_ptr<AdapterProduct> in_adapter, out_adapter;
  std::int64_t inner;  ///< I, what a shard has of it

  /// `module`: Module::attention or Module::feed_forward. `like` gives all but the sizes of both
  /// products; The widths are a shard's.
  SublayerProducts(const LayerSpec& spec, tensor::Device& device, Module module,
                   const tensor::LinearShape& like, std::int64_t inner_width,
                   std::int64_t hidden_width);

  /// `experts`: where matrices of experts lie; null: in a layer that has none.
  PackedSublayer lay_out_packed(Arena& arena, Arena* experts = nullptr) const;
  void pack(tensor::Stream& stream, const SublayerWeights& weights,
            LayerPart part = LayerPart::all) const;
  /// Packs the matrices of adapters alone.
  void pack_adapters(tensor::Stream& stream, const SublayerWeights& weights) const;
  void add_packed_copies(const SublayerWeights& weights, std::vector<PackedCopy>& copies) const;
  /// Scratch memory of the products. All layers use one memory in turn.
  tensor::ScratchBytes scratch_bytes() const;
  void set_scratch(const tensor::Scratch& scratch) const;

 private:
  tensor::ScratchBytes bytes_of_products() const;  ///< without adapters
};

/// The products of both sublayers of a layer.
struct BlockProducts : BranchPair<SublayerProducts> {
  BlockProducts(const LayerSpec& spec, tensor::Device& device, const tensor::LinearShape& like);

  /// `experts`: where matrices of experts lie; null: in a layer that has none.
  PackedBlock lay_out_packed(Arena& arena, Arena* experts) const;
  void pack(tensor::Stream& stream, const BlockWeights& weights,
            LayerPart part = LayerPart::all) const;
  void pack_adapters(tensor::Stream& stream, const BlockWeights& weights) const;
  void add_packed_copies(const BlockWeights& weights, std::vector<PackedCopy>& copies) const;
  tensor::ScratchBytes scratch_bytes() const;
  void set_scratch(const tensor::Scratch& scratch) const;
};

/// Scratch memory that serves both in turn.
inline tensor::ScratchBytes larger(const tensor::ScratchBytes& a, const tensor::ScratchBytes& b) {
  return {.forward = std::max(a.forward, b.forward), .backward = std::max(a.backward, b.backward)};
}

}  // namespace troupe::stages
