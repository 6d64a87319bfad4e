#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tensor/cpu/products/product.h"
#include "tensor/cpu/products/row_blocks.h"
#include "tensor/device/grouped_linear.h"

namespace troupe::tensor {

/// Grouped products on oneDNN. How many rows a group has changes from call to call, and oneDNN
/// prepares a product for one number of rows: so rows are multiplied in blocks of a few sizes
/// (row_blocks.h), each by one thread, and threads take blocks as they finish others. A block's
/// bits do not depend on the thread, nor on the number of threads. A packed weight is, group by
/// group, what CpuLinear's is.
class CpuGroupedLinear final : public GroupedLinear {
 public:
  CpuGroupedLinear(const GroupedLinearShape& shape, int threads);

  std::size_t packed_bytes() const override;
  ScratchBytes scratch_bytes() const override;
  void set_scratch(const Scratch& scratch) override;
  void pack(Stream& stream, const Tensor& w, void* packed) override;
  Tensor packed_copy(void*) const override { return {}; }
  void forward(Stream& stream, const Tensor& x, const Tensor& offsets, const void* packed,
               const Tensor& y) override;
  void input_gradient(Stream& stream, const Tensor& dy, const Tensor& offsets, const void* packed,
                      const Tensor& dx) override;
  void weight_gradient(Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& offsets,
                       const Tensor& dw, Gradient gradient) override;

 private:
  using Products = std::vector<Product>;  // of each number of rows of a block, as in kBlockRows

  /// The gradients of some rows of a weight: written, or added to what is there.
  struct WeightProducts {
    Products first, added;
  };
  /// What one thread multiplies with: a product may be run by one thread at a time.
  struct Lane {
    Products forward, input;
    WeightProducts weights, last_weights;  ///< of a tile of a weight, and of the rows that are left
    void* copy = nullptr;                  ///< where a block's gradients of kTile outputs are put
  };
  /// One product of all groups: where its factors and its result lie.
  struct Call {
    Products Lane::*products;
    const Tensor& from;
    std::int64_t from_columns;
    const Tensor& to;
    std::int64_t to_columns;
    const std::byte* packed;  ///< of the first group
  };

  Lane make_lane() const;
  Products products_of(ProductShape shape, std::int64_t ProductShape::*rows) const;
  /// The offsets of a call whose tensors have `rows` rows. Asserts that they fit the shape.
  const std::int32_t* offsets_of(const Tensor& offsets, std::int64_t rows) const;
  void multiply(const Call& call, const std::int32_t* offsets, std::vector<std::int64_t>& tasks);
  WeightProducts weight_products(std::int64_t tile) const;
  void tile_gradient(Lane& lane, const Tensor& dy, const Tensor& x, const RowRange& rows,
                     std::int64_t column, float* dw, Gradient gradient) const;
  std::size_t forward_bytes() const;   ///< of scratch memory of a lane
  std::size_t backward_bytes() const;  ///< of scratch memory of a lane, with its copy
  std::size_t copy_bytes() const;
  std::size_t input_gradient_offset() const;
  std::size_t stride() const;  ///< from one group's packed weight to the next

  const GroupedLinearShape shape_;
  const int threads_;
  std::vector<Lane> lanes_;                                   // of each thread
  std::vector<std::int64_t> forward_tasks_, gradient_tasks_;  // before each group, in a call
};

}  // namespace troupe::tensor
