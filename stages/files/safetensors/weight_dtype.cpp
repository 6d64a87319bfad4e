#include "stages/files/safetensors/weight_dtype.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "tensor/errors/error.h"
#include "tensor/values/dtype.h"

namespace troupe::stages {
namespace {

constexpr std::array<WeightDTypeTraits, 3> kTraits{
    {{WeightDType::f32, "F32", "float32", 4, 0x7f800000u, std::numeric_limits<float>::max()},
     {WeightDType::bf16, "BF16", "bfloat16", 2, 0x7f80u, std::bit_cast<float>(0x7f7f0000u)},
     {WeightDType::f16, "F16", "float16", 2, 0x7c00u, 65504}}};

// A float16 has 5 bits of exponent, whose bias is 15, and 10 of mantissa.
constexpr int kMantissa = 10;
constexpr std::uint16_t kInfinity = 0x7c00;

float from_half(std::uint16_t bits) {
  const int exponent = (bits & kInfinity) >> kMantissa;
  const int mantissa = bits & ((1 << kMantissa) - 1);
  const auto sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000u | static_cast<std::uint32_t>(mantissa) << 13);
  const float magnitude =
      exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                    : std::ldexp(static_cast<float>(mantissa + (1 << kMantissa)), exponent - 25);
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

std::uint16_t to_half(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  constexpr std::uint32_t kNan = 0x7f800001, kTooLarge = 0x477ff000, kSmallestNormal = 0x38800000;
  const auto with_sign = [&](std::uint32_t half) {
    return static_cast<std::uint16_t>(sign | half);
  };
  if (magnitude >= kNan) return with_sign(kInfinity | 0x200u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= kTooLarge) return with_sign(kInfinity);
  if (magnitude < kSmallestNormal)  // a multiple of 2^-24
    return with_sign(static_cast<std::uint32_t>(
        std::nearbyint(std::ldexp(std::bit_cast<float>(magnitude), 24))));
  const std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return with_sign((rounded >> 13) - ((127u - 15u) << kMantissa));
}

template <typename Element, typename Turn>
void widen_each(std::span<const std::byte> in, std::span<float> out, Turn&& turn) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Element element;
    std::memcpy(&element, in.data() + i * sizeof element, sizeof element);
    out[i] = turn(element);
  }
}

template <typename Turn>
void narrow_each(std::span<const float> in, std::span<std::byte> out, Turn&& turn) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto element = turn(in[i]);
    std::memcpy(out.data() + i * sizeof element, &element, sizeof element);
  }
}

}  // namespace

std::optional<WeightDType> weight_dtype(std::string_view stored) {
  for (const WeightDTypeTraits& traits : kTraits)
    if (traits.stored == stored) return traits.dtype;
  return std::nullopt;
}

const WeightDTypeTraits& traits_of(WeightDType dtype) {
  return kTraits[static_cast<std::size_t>(dtype)];
}

void widen(std::span<const std::byte> in, WeightDType dtype, std::span<float> out) {
  TROUPE_ASSERT(in.size() == out.size() * size_of(dtype));
  switch (dtype) {
    case WeightDType::f32:
      if (!in.empty()) std::memcpy(out.data(), in.data(), in.size());
      return;
    case WeightDType::bf16:
      return widen_each<tensor::BFloat16>(in, out, tensor::to_float);
    case WeightDType::f16:
      return widen_each<std::uint16_t>(in, out, from_half);
  }
}

void narrow(std::span<const float> in, WeightDType dtype, std::span<std::byte> out) {
  TROUPE_ASSERT(out.size() == in.size() * size_of(dtype));
  switch (dtype) {
    case WeightDType::f32:
      if (!in.empty()) std::memcpy(out.data(), in.data(), out.size());
      return;
    case WeightDType::bf16:
      return narrow_each(in, out, tensor::to_bfloat16);
    case WeightDType::f16:
      return narrow_each(in, out, to_half);
  }
}

}  // namespace troupe::stages
