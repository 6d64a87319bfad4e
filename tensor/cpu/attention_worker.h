#pragma once

#include <optional>
#include <vector>

#include "tensor/attention.h"
#include "tensor/cpu/product.h"
#include "tensor/cpu/query_block.h"

namespace troupe::tensor {

/// What one thread needs for one direction of attention over one shape: the products of every query
/// block, and memory.
class AttentionWorker {
 public:
  enum class Use { forward, backward };
  /// One query block with its products: R = rows, N = columns.
  struct Block {
    QueryBlock shape;
    Product scores;                        // [R, D] x [N, D]^T
    Product values;                        // [R, N] x [N, D]
    std::optional<Product> keys_gradient;  // [R, N]^T x [R, D], added; only in a backward
  };

  AttentionWorker(const AttentionShape& shape, Use use);

  std::size_t scratch_bytes() const { return scratch_bytes_; }  ///< a multiple of 64
  void set_scratch(void* scratch);

  std::vector<Block>& blocks() { return blocks_; }  ///< in ascending order of positions

  // Memory of a job; each block overwrites what is indexed by R below.
  float* scores = nullptr;        // [R, N]
  void* probabilities = nullptr;  // [R, N] of the shape's dtype; if float32, in scores
  float* values = nullptr;        // [R, D]
  float* row_factors = nullptr;   // [R]
  // Memory of a backward only.
  float* dprobabilities = nullptr;   // [R, N]
  void* dscores = nullptr;           // [R, N] of the shape's dtype; if float32, in dprobabilities
  void* gradient = nullptr;          // [R, D] of the shape's dtype
  float* keys_gradient = nullptr;    // [S, D]
  float* values_gradient = nullptr;  // [S, D]

 private:
  void add_block(const QueryBlock& block);
  /// Divides `scratch` among the pointers above and the products, or only counts if it is null.
  /// Returns its size.
  std::size_t lay_out(std::byte* scratch);

  const AttentionShape shape_;
  const Use use_;
  std::vector<Block> blocks_;
  std::size_t scratch_bytes_;
};

}  // namespace troupe::tensor
