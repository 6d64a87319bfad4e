#include "tensor/parallel/vocab_range.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/error.h"

namespace troupe::tensor {

VocabRange vocab_range(std::int64_t vocabulary, int shards, int shard) {
  if (vocabulary % shards != 0) {
    throw Error(ErrorKind::manifest,
                fmt::format("a vocabulary of {} cannot be divided evenly among {} shards; pad it "
                            "to {}",
                            vocabulary, shards, padded_vocab(vocabulary, shards)));
  }
  const std::int64_t size = vocabulary / shards;
  return {.first = shard * size, .size = size};
}

std::int64_t padded_vocab(std::int64_t vocabulary, int shards) {
  return (vocabulary + shards - 1) / shards * shards;
}

VocabColumns columns_of(const VocabRange& range, std::int64_t classes) {
  return {.first = range.first,
          .valid = std::clamp<std::int64_t>(classes - range.first, 0, range.size)};
}

}  // namespace troupe::tensor
