#pragma once

#include <cstddef>
#include <vector>

#include "tensor/device/device.h"

namespace troupe::tensor {

/// The shape of a linear layer y[T, out] = x[T, in] * w[out, in]^T, where T = rows. x, dy in
/// `dtype`; y in `output_dtype`.
struct LinearShape {
  std::int64_t rows = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  DType dtype = DType::f32;
  DType output_dtype = DType::f32;
  /// If not 0, a call may have fewer rows: a multiple of row_step, which divides `rows`.
  std::int64_t row_step = 0;
  /// Other numbers of rows that a call may have: inference multiplies a whole prompt with a weight,
  /// and later single tokens; a head multiplies tokens in parts.
  std::vector<std::int64_t> other_rows{};
  /// Whether gradients may be asked for. If not, a packed weight is of one orientation.
  bool gradients = true;
  bool operator==(const LinearShape&) const = default;
};

/// The shape. Throws Error{manifest} for one that has no meaning.
const LinearShape& check(const LinearShape& shape);
/// The numbers of rows that calls of a layer may have, each once, shape.rows first. Asserts that
/// they fit together.
std::vector<std::int64_t> row_counts(const LinearShape& shape);

/// The place of a gradient in a sum: the first one is written, the others are added to it.
enum class Gradient { first, added };

/// The three products of a linear layer, for one shape; the number of rows of a call is that of its
/// tensors. One object serves every layer of that shape: the only state of a weight is its packed
/// form, which the caller keeps, as it does all other memory. A forward may run at the same time as
/// a gradient, and pack() as either of them; two forwards, two gradients or two packs may not.
class Linear {
 public:
  virtual ~Linear() = default;
  /// Bytes of a packed weight (both orientations, if there are gradients).
  virtual std::size_t packed_bytes() const = 0;
  /// Memory that products work in; given once, before the first product. Nothing in it outlasts a
  /// call, so layers that take turns may share it. `backward` is null if no gradient follows.
  virtual ScratchBytes scratch_bytes() const = 0;
  virtual void set_scratch(const Scratch& scratch) = 0;
  /// Converts the master weight w[out, in] (float32) into `packed`, packed_bytes() long. Called
  /// once per step.
  virtual void pack(Stream& stream, const Tensor& w, void* packed) = 0;
  /// The packed weight as w[out, in] in `dtype`, if that is all it is: then an optimizer may write
  /// it instead of pack(). Empty if pack() does more.
  virtual Tensor packed_copy(void* packed) const = 0;
  /// y = x w^T (+ residual[T, out], of y's dtype, if given; y and residual do not overlap).
  virtual void forward(Stream& stream, const Tensor& x, const void* packed, const Tensor& y,
                       const Tensor& residual = {}) = 0;
  /// dx[T, in] = dy[T, out] w. dy is of `dtype` even if output_dtype differs.
  virtual void input_gradient(Stream& stream, const Tensor& dy, const void* packed,
                              const Tensor& dx) = 0;
  /// dw[out, in] (float32) = dy^T x for the first gradient, whatever dw held; dw += dy^T x, with
  /// one addition per element and call, for the later ones.
  virtual void weight_gradient(Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& dw,
                               Gradient gradient) = 0;
};

}  // namespace troupe::tensor
