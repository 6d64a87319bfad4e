#pragma once

#include <array>
#include <memory>

#include "stages/decoder/layers/arena.h"
#include "stages/decoder/layers/packed_copies.h"
#include "stages/decoder/layers/sublayer_tensors.h"
#include "tensor/parallel/column_parallel_linear.h"
#include "tensor/parallel/row_parallel_linear.h"

namespace troupe::stages {

/// The norm and the two products of a sublayer, and the packed form of their matrices: what
/// training and inference have alike.
struct SublayerProducts {
  Norm norm;
  std::unique_ptr<tensor::ColumnParallelLinear> in;
  std::unique_ptr<tensor::RowParallelLinear> out;

  /// `like` gives all but the sizes of both products; `inner` and `hidden` are a shard's widths.
  SublayerProducts(const LayerSpec& spec, tensor::Device& device, const tensor::LinearShape& like,
                   std::int64_t inner, std::int64_t hidden);

  PackedSublayer lay_out_packed(Arena& arena) const;
  void pack(tensor::Stream& stream, const SublayerWeights& weights) const;
  std::array<PackedCopy, 2> packed_copies(const SublayerWeights& weights) const;
  /// Scratch memory of the products. All layers use one memory in turn.
  tensor::ScratchBytes scratch_bytes() const;
  void set_scratch(const tensor::Scratch& scratch) const;
};

}  // namespace troupe::stages
