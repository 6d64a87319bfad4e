#include "tensor/dtype.h"

#include <bit>

#include "tensor/error.h"

namespace troupe::tensor {

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 4;
    case DType::bf16:
      return 2;
    case DType::i32:
      return 4;
    case DType::f64:
    case DType::i64:
      return 8;
  }
  assert_failed("dtype is a DType", __FILE__, __LINE__);
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "float32";
    case DType::bf16:
      return "bfloat16";
    case DType::i32:
      return "int32";
    case DType::f64:
      return "float64";
    case DType::i64:
      return "int64";
  }
  assert_failed("dtype is a DType", __FILE__, __LINE__);
}

float to_float(BFloat16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

BFloat16 to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  constexpr std::uint32_t kQuietNan =
      0x40;  // a NaN whose set bits are all in the lower half stays one
  if (x != x) return {static_cast<std::uint16_t>((bits >> 16) | kQuietNan)};
  const std::uint32_t to_even = 0x7fff + ((bits >> 16) & 1);
  return {static_cast<std::uint16_t>((bits + to_even) >> 16)};
}

}  // namespace troupe::tensor
