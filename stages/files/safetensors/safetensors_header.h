#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "tensor/region.h"

namespace troupe::stages {

struct SafetensorsDType {
  std::string_view name;
  std::uint64_t bits;  ///< of one element
};

/// The format's dtypes in the order of the reference implementation. Its writer sorts tensors by
/// it, the last dtype first.
inline constexpr std::array<SafetensorsDType, 22> kSafetensorsDTypes = {{
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
}};

/// All of a tensor with this shape and number of elements, as a matrix: a row for each index of the
/// first dim, or one row if there is none.
inline tensor::Region as_matrix(std::span<const std::int64_t> shape, std::int64_t elements) {
  const std::int64_t rows = shape.empty() ? 1 : shape.front();
  return {.rows = rows, .columns = elements > 0 ? elements / rows : 0};
}

}  // namespace troupe::stages
