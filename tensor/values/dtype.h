#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe::tensor {

enum class DType : std::uint8_t { f32 = 0, bf16 = 1, i32 = 2, f64 = 3, i64 = 4 };

/// Bytes of one element of this type.
std::size_t size_of(DType dtype);
/// "float32", "bfloat16", "int32", "float64", "int64": the names used in manifests and messages.
std::string_view name_of(DType dtype);

/// A bfloat16 number: the upper half of a float32. Rounding is to nearest even.
struct BFloat16 {
  std::uint16_t bits = 0;
};
float to_float(BFloat16 x);
BFloat16 to_bfloat16(float x);

}  // namespace troupe::tensor
