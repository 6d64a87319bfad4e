#include "tensor/parallel/division.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/errors/error.h"

namespace troupe::tensor {

std::int64_t even_part(std::string_view what, std::int64_t count, int shards) {
  if (count % shards == 0) return count / shards;
  const std::int64_t below = count / shards * shards, above = below + shards;
  throw Error(
      ErrorKind::manifest,
      fmt::format("{} {} cannot be divided evenly among {} shards; the nearest {} {}", count, what,
                  shards, below > 0 ? "numbers are" : "number is",
                  below > 0 ? fmt::format("{} and {}", below, above) : fmt::format("{}", above)));
}

void check_tokens(std::int64_t tokens, const TensorParallel& parallel) {
  if (parallel.splits_tokens()) even_part("tokens of a microbatch", tokens, parallel.size);
}

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
