#pragma once

#include <optional>
#include <vector>

#include "tensor/cpu/attention/query_block.h"
#include "tensor/cpu/products/product.h"
#include "tensor/device/attention.h"

namespace troupe::tensor {

/// What one thread needs for one direction of attention over one shape: the products of query
/// blocks, and memory. Sequences of one length have products of oneDNN that are prepared for each
/// block; for documents of any length multiply() computes them.
class AttentionWorker {
 public:
  enum class Use { forward, backward };

  AttentionWorker(const AttentionShape& shape, Use use);

  std::size_t scratch_bytes() const { return scratch_bytes_; }  ///< a multiple of 64
  void set_scratch(void* scratch);

  /// The query blocks of a sequence of `length` positions, the shape's if it has no documents.
  std::int64_t num_blocks(std::int64_t length) const;
  QueryBlock block(std::int64_t number, std::int64_t length) const;

  // The products of a block. D is the head size, R the block's rows, N its columns, S the longest
  // sequence. Keys and what goes with them are those of the block's columns, its first key on.
  /// out = rows[R, D] x keys[N, D]^T.
  void multiply_keys(std::int64_t number, const QueryBlock& block, const void* rows,
                     const void* keys, float* out);
  /// out = weights[R, N] x columns[N, D].
  void multiply_values(std::int64_t number, const QueryBlock& block, const void* weights,
                       const void* columns, float* out);
  /// sums += weights[R, N]^T x rows[R, D]. Only in a backward.
  void add_to_keys(std::int64_t number, const QueryBlock& block, const void* weights,
                   const void* rows, float* sums);

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
  // The rotation of a document that has its own; null if no document has. R turns.
  float* cos = nullptr;          // [S, R/2]
  float* sin = nullptr;          // [S, R/2]
  float* frequencies = nullptr;  // [R/2]

 private:
  struct Prepared {
    Product scores;
    Product values;
    std::optional<Product> keys_gradient;
  };

  std::int64_t most_columns() const;  ///< of a block
  void prepare(const QueryBlock& block);
  ProductShape scores_shape(const QueryBlock& block) const;
  ProductShape values_shape(const QueryBlock& block) const;
  ProductShape keys_shape(const QueryBlock& block) const;
  std::size_t product_bytes() const;
  /// Divides `scratch` among the pointers above and the products, or only counts if it is null.
  /// Returns its size.
  std::size_t lay_out(std::byte* scratch);

  AttentionShape shape_;
  Use use_;
  std::vector<Prepared> prepared_;  // by block; empty for documents
  void* product_scratch_ = nullptr;
  std::size_t scratch_bytes_;
};

}  // namespace troupe::tensor
