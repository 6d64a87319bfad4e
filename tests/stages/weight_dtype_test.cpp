#include "stages/files/safetensors/weight_dtype.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

BOOST_AUTO_TEST_SUITE(weight_dtype_test)

using namespace troupe::stages;

namespace {

/// The value of a float16 by the definition of IEEE 754.
double half_value(std::uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

float widened(WeightDType dtype, std::uint16_t bits) {
  float out = 0;
  widen(std::as_bytes(std::span(&bits, 1)), dtype, std::span(&out, 1));
  return out;
}

std::uint16_t narrowed(WeightDType dtype, float x) {
  std::uint16_t bits = 0;
  narrow(std::span(&x, 1), dtype, std::as_writable_bytes(std::span(&bits, 1)));
  return bits;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(weight_dtypes)

BOOST_AUTO_TEST_CASE(every_float16_is_widened_and_narrowed_exactly) {
  for (std::uint32_t all = 0; all <= 0xffff; ++all) {
    const auto bits = static_cast<std::uint16_t>(all);
    const double value = half_value(bits);
    const float wide = widened(WeightDType::f16, bits);
    if (std::isnan(value)) {
      BOOST_TEST_REQUIRE(std::isnan(wide), bits);
      BOOST_TEST_REQUIRE(std::isnan(half_value(narrowed(WeightDType::f16, wide))), bits);
      continue;
    }
    BOOST_TEST_REQUIRE(wide == value, bits);
    BOOST_TEST_REQUIRE(std::signbit(wide) == ((bits & 0x8000) != 0), bits);
    BOOST_TEST_REQUIRE(narrowed(WeightDType::f16, wide) == bits, bits);
  }
}

BOOST_AUTO_TEST_CASE(float16_rounds_to_the_nearest_ties_to_even) {
  // Between each two neighbours, just below, at and just above their middle.
  for (std::uint32_t all = 0; all < 0x7bff; ++all) {
    const auto low = static_cast<std::uint16_t>(all), high = static_cast<std::uint16_t>(all + 1);
    const auto middle = static_cast<float>((half_value(low) + half_value(high)) / 2);
    const std::uint16_t even = low % 2 == 0 ? low : high;
    BOOST_TEST_REQUIRE(narrowed(WeightDType::f16, middle) == even, low);
    BOOST_TEST_REQUIRE(narrowed(WeightDType::f16, std::nextafter(middle, 0.0f)) == low, low);
    BOOST_TEST_REQUIRE(narrowed(WeightDType::f16, std::nextafter(middle, 1e9f)) == high, low);
    BOOST_TEST_REQUIRE(narrowed(WeightDType::f16, -middle) == (even | 0x8000), low);
  }
  BOOST_TEST(narrowed(WeightDType::f16, 65519.99f) == 0x7bff);
  BOOST_TEST(narrowed(WeightDType::f16, 65520.0f) == 0x7c00);
  BOOST_TEST(narrowed(WeightDType::f16, -std::numeric_limits<float>::infinity()) == 0xfc00);
}

BOOST_AUTO_TEST_CASE(bfloat16_is_the_upper_half_of_a_float) {
  for (std::uint32_t all = 0; all <= 0xffff; ++all) {
    const auto bits = static_cast<std::uint16_t>(all);
    const float wide = widened(WeightDType::bf16, bits);
    std::uint32_t found = 0;
    std::memcpy(&found, &wide, sizeof found);
    BOOST_TEST_REQUIRE(found == all << 16);
    if (!std::isnan(wide)) BOOST_TEST_REQUIRE(narrowed(WeightDType::bf16, wide) == bits);
  }
}

BOOST_AUTO_TEST_CASE(names_and_sizes) {
  for (const WeightDType dtype : {WeightDType::f32, WeightDType::bf16, WeightDType::f16})
    BOOST_TEST((weight_dtype(traits_of(dtype).stored) == dtype));
  BOOST_TEST(!weight_dtype("F64").has_value());
  BOOST_TEST(!weight_dtype("I32").has_value());
  BOOST_TEST(name_of(WeightDType::bf16) == "bfloat16");
  BOOST_TEST(name_of(WeightDType::f16) == "float16");
  BOOST_TEST(size_of(WeightDType::f32) == 4u);
  BOOST_TEST(size_of(WeightDType::f16) == 2u);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
