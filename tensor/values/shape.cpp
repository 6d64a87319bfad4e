#include "tensor/values/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tensor/errors/error.h"

namespace troupe::tensor {

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) {
  if (dims.size() > kMaxRank) {
    throw Error(ErrorKind::data, fmt::format("shape [{}] has {} dims; at most {} are supported",
                                             fmt::join(dims, ", "), dims.size(), kMaxRank));
  }
  for (const std::int64_t dim : dims) {
    if (dim < 0) {
      throw Error(ErrorKind::data,
                  fmt::format("shape [{}] has the negative dim {}; dims start at 0",
                              fmt::join(dims, ", "), dim));
    }
    if (__builtin_mul_overflow(num_elements_, dim, &num_elements_)) {
      throw Error(ErrorKind::data, fmt::format("shape [{}] has more elements than fit in 63 bits",
                                               fmt::join(dims, ", ")));
    }
    dims_[static_cast<std::size_t>(rank_++)] = dim;
  }
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape.dims(), ", "));
}

}  // namespace troupe::tensor
