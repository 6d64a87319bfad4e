#include "tensor/values/dtype.h"

#include <array>
#include <bit>

#include "tensor/errors/error.h"

namespace troupe::tensor {
namespace {

struct Description {
  std::size_t size;
  std::string_view name;
};
constexpr std::array<Description, 5> kDTypes{
    {{4, "float32"}, {2, "bfloat16"}, {4, "int32"}, {8, "float64"}, {8, "int64"}}};

const Description& of(DType dtype) {
  TROUPE_ASSERT(static_cast<std::size_t>(dtype) < kDTypes.size());
  return kDTypes[static_cast<std::size_t>(dtype)];
}

}  // namespace

std::size_t size_of(DType dtype) {
  return of(dtype).size;
}

std::string_view name_of(DType dtype) {
  return of(dtype).name;
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
