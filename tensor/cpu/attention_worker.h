#pragma once

#include <vector>

#include "tensor/attention.h"
#include "tensor/cpu/attention_kernels.h"
#include "tensor/cpu/product.h"

namespace troupe::tensor {

/// What one thread needs for attention over one shape: the products of every query block, and
/// memory.
class AttentionWorker {
 public:
  /// One query block with its products: R = rows, N = columns.
  struct Block {
    QueryBlock shape;
    Product scores;         // [R, D] x [N, D]^T
    Product values;         // [R, N] x [N, D]
    Product keys_gradient;  // [R, N]^T x [R, D], added to what is there
  };

  explicit AttentionWorker(const AttentionShape& shape);

  std::size_t scratch_bytes() const { return scratch_bytes_; }  ///< a multiple of 64
  void set_scratch(void* scratch);

  std::vector<Block>& blocks() { return blocks_; }  ///< in ascending order of positions

  // Memory of a job. That of a block is written anew by each block.
  float* scores;           // [R, N]
  float* dprobabilities;   // [R, N]
  void* probabilities;     // [R, N] of the shape's dtype; the scores' memory where that is float32
  void* dscores;           // [R, N] likewise, over dprobabilities
  float* values;           // [R, D]
  void* gradient;          // [R, D] of the shape's dtype
  float* row_factors;      // [R]
  float* keys_gradient;    // [S, D]
  float* values_gradient;  // [S, D]

 private:
  void add_block(const QueryBlock& block);
  /// Divides `scratch` among the pointers above and the products, or only counts where it is null.
  /// Returns its size.
  std::size_t lay_out(std::byte* scratch);

  const AttentionShape shape_;
  std::vector<Block> blocks_;
  std::size_t scratch_bytes_;
};

}  // namespace troupe::tensor
