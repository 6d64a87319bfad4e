#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tensor/device/ops.h"
#include "tensor/parallel/tensor_parallel.h"

// What of a number, a matrix and a vocabulary each shard has.

namespace troupe::tensor {

/// The part of each shard when `count` of `what` ("outputs of a column-parallel layer") are divided
/// evenly. Throws Error{manifest} with the nearest valid counts if `shards` does not divide it.
std::int64_t even_part(std::string_view what, std::int64_t count, int shards);
/// Throws Error{manifest} if sequence parallelism cannot divide so many tokens of a microbatch.
void check_tokens(std::int64_t tokens, const TensorParallel& parallel);

/// A view of rows [first, first + count) of a matrix.
inline Tensor row_view(const Tensor& x, std::int64_t first, std::int64_t count) {
  const auto row_bytes = static_cast<std::int64_t>(size_of(x.dtype)) * x.shape[1];
  return {x.as<std::byte>() + first * row_bytes, x.dtype, {count, x.shape[1]}};
}

/// The ids [first, first + size) of a vocabulary, which are rows of an embedding and classes of a
/// loss.
struct VocabRange {
  std::int64_t first = 0;
  std::int64_t size = 0;
  bool operator==(const VocabRange&) const = default;
};

/// What shard `shard` of `shards` holds when a vocabulary is divided evenly. Throws Error{manifest}
/// with the size to pad it to if `shards` does not divide it.
VocabRange vocab_range(std::int64_t vocabulary, int shards, int shard);

/// The smallest vocabulary that `shards` divides and that is not smaller. A model whose vocabulary
/// is padded leaves the ids from `vocabulary` on out of its loss (columns_of()).
std::int64_t padded_vocab(std::int64_t vocabulary, int shards);

/// The logits of a range, of which only those below `classes` stand for classes.
VocabColumns columns_of(const VocabRange& range, std::int64_t classes);

}  // namespace troupe::tensor
