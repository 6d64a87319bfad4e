#include "tensor/parallel/even_split.h"

#include <fmt/format.h>

#include "tensor/error.h"

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

}  // namespace troupe::tensor
