#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "stages/decoder/layers/arena.h"
#include "stages/decoder/layers/layer_dropout.h"
#include "stages/decoder/layers/layer_shape.h"
#include "tensor/device/linear.h"
#include "tensor/device/ops.h"

namespace troupe::stages {

/// The matrices of an adapter beside one product, or their gradients, in float32: those of all its
/// targets, one after the other.
struct AdapterParameters {
  tensor::Tensor a;  // [R, in]   R: the ranks of all targets together
  tensor::Tensor b;  // [rows of all targets, rank]
};

/// Their packed form.
struct PackedAdapter {
  void* a = nullptr;
  void* b = nullptr;
};

/// Which outputs of a shard's product have an adapter, and of what sizes it is.
struct AdapterForm {
  /// Some of the product's outputs, and the rows of B and the columns of A's result from which they
  /// come.
  struct Part {
    std::int64_t first_output = 0, rows = 0;
    std::int64_t first_row = 0, first_column = 0;
  };
  std::vector<Part> parts;
  std::int64_t rank = 0;
  std::int64_t in = 0, out = 0;  ///< of the shard's product
  std::int64_t low = 0;          ///< R
  float scale = 1;               ///< Adapter::scale()
  /// Whether B, as it lies in memory, is the matrix from A's result to all outputs.
  bool is_whole() const {
    const Part& last = parts.back();
    return low == rank && last.first_row + last.rows == out;
  }
};

/// The product of a module's field `weight`, Field::weight or Field::out_weight; none if it has no
/// adapter. All layers that have one are alike.
std::optional<AdapterForm> adapter_form(const ModelConfig& model, const Sharding& sharding,
                                        Module module, Field weight);

/// What an adapter (LoRA, arXiv 2106.09685) adds to the product of a sublayer:
///   y = x W^T + low B^T,  low = scale * dropout(x) A^T
/// where A has the rows of all targets of the product, and B only adds to their outputs. Of several
/// shards each adds to its own outputs, or to its part of the sum over them, so that no collective
/// comes with it. One object serves every layer of a stage. T: the rows of a call.
class AdapterProduct {
 public:
  /// `like` gives all but the sizes of the products.
  AdapterProduct(const AdapterForm& form, tensor::Device& device, const tensor::LinearShape& like);

  /// Takes memory for what a forward keeps, `low` [T, R] act, or for its gradient.
  tensor::Tensor lay_out_low(Arena& arena) const;
  PackedAdapter lay_out_packed(Arena& arena) const;
  /// Not while a forward runs, in whose scratch memory it works.
  void pack(tensor::Stream& stream, const AdapterParameters& master,
            const PackedAdapter& packed) const;
  tensor::ScratchBytes scratch_bytes() const;
  void set_scratch(const tensor::Scratch& scratch);

  /// Where a forward finds x W^T, of the shape of y [T, out], which add_forward() reads.
  tensor::Tensor base_of(const tensor::Tensor& y) const;
  /// low from x [T, in], then y = base_of(y) + low B^T.
  void add_forward(tensor::Stream& stream, const PackedAdapter& packed,
                   const HiddenDropout& dropout, const tensor::Tensor& x, const tensor::Tensor& low,
                   const tensor::Tensor& y) const;
  /// Fills low alone.
  void forward_low(tensor::Stream& stream, const PackedAdapter& packed,
                   const HiddenDropout& dropout, const tensor::Tensor& x,
                   const tensor::Tensor& low) const;
  /// dlow from dy [T, out]; adds the adapter's part of the gradient of x to dx [T, in].
  void add_input_gradient(tensor::Stream& stream, const PackedAdapter& packed,
                          const HiddenDropout& dropout, const tensor::Tensor& dy,
                          const tensor::Tensor& dlow, const tensor::Tensor& dx) const;
  /// The gradients of A and B, from the same dropout, and what the forward and the input gradient
  /// left.
  void weight_gradient(tensor::Stream& stream, const HiddenDropout& dropout,
                       const tensor::Tensor& dy, const tensor::Tensor& x, const tensor::Tensor& low,
                       const tensor::Tensor& dlow, const AdapterParameters& gradients,
                       tensor::Gradient which) const;

 private:
  /// x, or what is left of it in `memory`.
  tensor::Tensor dropped(tensor::Stream& stream, const HiddenDropout& dropout,
                         const tensor::Tensor& x, void* memory) const;
  void give_parts(tensor::Stream& stream, const tensor::Tensor& whole, const tensor::Tensor& b,
                  tensor::Gradient which) const;

  const AdapterForm form_;
  const std::int64_t rows_;  ///< the most of a call
  const tensor::DType dtype_;
  tensor::Ops& ops_;
  const std::unique_ptr<tensor::Linear> a_, b_;
  /// Scratch memory of forwards: `base`, and of both passes: `dropped`, what A reads, or its
  /// gradient; `whole`, [out, R] float32.
  struct Memory {
    void *base = nullptr, *dropped = nullptr, *whole = nullptr;
  };
  Memory lay_out(Arena& arena, bool is_forward) const;
  Memory forward_, backward_;
};

}  // namespace troupe::stages
