#pragma once

#include <cstdint>

#include "tensor/ops.h"

namespace troupe::tensor {

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
