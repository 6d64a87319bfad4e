#pragma once

#include "tensor/device/linear.h"

namespace troupe::tensor {

/// The shape of `groups` linear layers of one shape, each of which multiplies its own rows, as the
/// experts of a layer do: y[R, out] = x[R, in] * w[g]^T for the rows of group g. `each` is that of
/// one: its rows are the most that a call has of all groups together, and one group may have all;
/// row_step and other_rows have no meaning.
struct GroupedLinearShape {
  std::int64_t groups = 1;
  LinearShape each;
  bool operator==(const GroupedLinearShape&) const = default;
};

/// The shape. Throws Error{manifest} for one that has no meaning.
const GroupedLinearShape& check(const GroupedLinearShape& shape);

/// The three products of all groups, one call for all of them. The weights w[groups * out, in] are
/// packed together. The rows of a call are in the order of the groups: group g has rows offsets[g]
/// to offsets[g + 1] - 1, maybe none. offsets[groups + 1] (int32) lies in the device's memory, is
/// read when the product runs, begins with 0, never falls, and ends with the rows of the call at
/// most; rows behind the end are neither read nor written. Results have the same bits for any
/// number of threads. What of Linear's contract is not said here holds.
///
/// A device without such products loops over its linear layers (tensor/device/looped_linear.h).
class GroupedLinear {
 public:
  virtual ~GroupedLinear() = default;
  /// Bytes of all packed weights.
  virtual std::size_t packed_bytes() const = 0;
  virtual ScratchBytes scratch_bytes() const = 0;
  virtual void set_scratch(const Scratch& scratch) = 0;
  virtual void pack(Stream& stream, const Tensor& w, void* packed) = 0;
  /// The packed weights as w[groups * out, in] in the dtype; empty if pack() does more.
  virtual Tensor packed_copy(void* packed) const = 0;
  /// y[R, out] of x[R, in].
  virtual void forward(Stream& stream, const Tensor& x, const Tensor& offsets, const void* packed,
                       const Tensor& y) = 0;
  /// dx[R, in] of dy[R, out].
  virtual void input_gradient(Stream& stream, const Tensor& dy, const Tensor& offsets,
                              const void* packed, const Tensor& dx) = 0;
  /// dw[groups * out, in] (float32) = each group's dy^T x for the first gradient, zeros for a group
  /// without rows; dw += it for the later ones. Rows are added in blocks of ascending rows, whose
  /// sizes follow from the group's number of rows alone.
  virtual void weight_gradient(Stream& stream, const Tensor& dy, const Tensor& x,
                               const Tensor& offsets, const Tensor& dw, Gradient gradient) = 0;
};

}  // namespace troupe::tensor
