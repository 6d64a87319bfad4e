#pragma once

#include <cstdint>

namespace troupe::tensor {

/// The place of a tensor [R, C] within a global row-major matrix of which it is a part: element (r,
/// c) is the global element (first_row + r, first_column + c). Random values are drawn by global
/// index, so that every division of a matrix draws the same ones.
struct MatrixSlice {
  std::int64_t columns = 0;  // of the global matrix
  std::int64_t first_row = 0;
  std::int64_t first_column = 0;

  /// Index in the global matrix of the element (r, c) of the slice.
  std::uint64_t index(std::int64_t r, std::int64_t c) const {
    return static_cast<std::uint64_t>((first_row + r) * columns + first_column + c);
  }
};

}  // namespace troupe::tensor
