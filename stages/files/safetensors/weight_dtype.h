#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace troupe::stages {

/// The types that weights have in files. In memory they are float32.
enum class WeightDType { f32, bf16, f16 };

/// The type that a safetensors file spells "F32", "BF16" or "F16"; none for any other.
std::optional<WeightDType> weight_dtype(std::string_view stored);
struct WeightDTypeTraits {
  WeightDType dtype;
  std::string_view stored;  ///< how safetensors files spell it
  std::string_view name;    ///< as config.json and command lines have it: "float32", ...
  std::size_t bytes;
  std::uint32_t exponent;  ///< the bits of the exponent, which are all set if NaN or infinite
  float largest;           ///< its largest number
};
const WeightDTypeTraits& traits_of(WeightDType dtype);
inline std::string_view name_of(WeightDType dtype) {
  return traits_of(dtype).name;
}
inline std::size_t size_of(WeightDType dtype) {
  return traits_of(dtype).bytes;
}

/// out[i] = in[i]; exact. `in` holds as many elements of this type as `out`.
void widen(std::span<const std::byte> in, WeightDType dtype, std::span<float> out);
/// out[i] = in[i], rounded to nearest, ties to even; what is beyond the type's range becomes
/// infinite. `out` has room for as many elements of this type.
void narrow(std::span<const float> in, WeightDType dtype, std::span<std::byte> out);

}  // namespace troupe::stages
