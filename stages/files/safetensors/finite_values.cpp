#include "stages/files/safetensors/finite_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "stages/storage/data_error.h"

namespace troupe::stages {
namespace {

/// An element is NaN or infinite if all bits of its exponent are set.
template <typename Bits>
std::optional<std::size_t> first_with(Bits exponent, std::span<const std::byte> elements) {
  constexpr std::size_t kBlock = 4096;  // looked through without a branch for each element
  std::array<Bits, kBlock> block;
  for (std::size_t begin = 0; begin < elements.size(); begin += sizeof block) {
    const std::size_t bytes = std::min(sizeof block, elements.size() - begin);
    std::memcpy(block.data(), elements.data() + begin, bytes);
    const auto of_block = std::span(block).first(bytes / sizeof(Bits));
    Bits any = 0;
    for (const Bits bits : of_block) any |= static_cast<Bits>((bits & exponent) == exponent);
    if (any == 0) continue;
    const auto found =
        std::ranges::find_if(of_block, [&](Bits bits) { return (bits & exponent) == exponent; });
    return begin / sizeof(Bits) + static_cast<std::size_t>(found - of_block.begin());
  }
  return std::nullopt;
}

std::optional<std::size_t> first_not_finite(std::span<const std::byte> elements,
                                            WeightDType dtype) {
  const std::uint32_t exponent = traits_of(dtype).exponent;
  return size_of(dtype) == sizeof exponent
             ? first_with(exponent, elements)
             : first_with(static_cast<std::uint16_t>(exponent), elements);
}

float value_of(std::span<const std::byte> elements, std::size_t element, WeightDType dtype) {
  float value = 0;
  widen(elements.subspan(element * size_of(dtype), size_of(dtype)), dtype, std::span(&value, 1));
  return value;
}

std::string place_of(const tensor::Region& region, std::size_t element) {
  const auto at = static_cast<std::int64_t>(element);
  return fmt::format("[{}, {}]", region.row + at / region.columns,
                     region.column + at % region.columns);
}

}  // namespace

void refuse_not_finite(std::string_view tensor, const tensor::Region& region,
                       std::span<const std::byte> elements) {
  const auto found = first_not_finite(elements, WeightDType::f32);
  if (!found) return;
  throw NotFinite(
      fmt::format("tensor {} is {} at {}: the run has diverged, and nothing could go on "
                  "from this state; earlier checkpoints stay",
                  tensor, value_of(elements, *found, WeightDType::f32), place_of(region, *found)));
}

std::optional<Error> not_finite(const ElementsOf& of, std::span<const std::byte> elements,
                                WeightDType dtype) {
  const auto found = first_not_finite(elements, dtype);
  if (!found) return std::nullopt;
  return data_error(
      "{}: tensor {} is {} at {}, as after a run that diverged or a conversion "
      "that failed; take an earlier checkpoint, or convert it anew",
      of.file.string(), of.tensor, value_of(elements, *found, dtype), place_of(of.region, *found));
}

std::optional<Error> out_of_range(const ElementsOf& of, std::span<const float> wide,
                                  std::span<const std::byte> narrowed, WeightDType dtype) {
  const auto found = first_not_finite(narrowed, dtype);
  if (!found) return std::nullopt;
  return data_error(
      "{}: tensor {} is {} at {}, beyond {}, whose largest number is {}; "
      "{} has its range",
      of.file.string(), of.tensor, wide[*found], place_of(of.region, *found), name_of(dtype),
      traits_of(dtype).largest, dtype == WeightDType::f16 ? "bfloat16 or float32" : "float32");
}

}  // namespace troupe::stages
