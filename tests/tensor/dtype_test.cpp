#include "tensor/values/dtype.h"

#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(dtype_test)

namespace {

BOOST_AUTO_TEST_CASE(sizes_and_names) {
  BOOST_TEST(size_of(DType::f32) == 4u);
  BOOST_TEST(size_of(DType::bf16) == 2u);
  BOOST_TEST(size_of(DType::i32) == 4u);
  BOOST_TEST(size_of(DType::f64) == 8u);
  BOOST_TEST(size_of(DType::i64) == 8u);
  BOOST_TEST(name_of(DType::f32) == "float32");
  BOOST_TEST(name_of(DType::bf16) == "bfloat16");
  BOOST_TEST(name_of(DType::i32) == "int32");
  BOOST_TEST(name_of(DType::f64) == "float64");
  BOOST_TEST(name_of(DType::i64) == "int64");
}

BOOST_AUTO_TEST_CASE(every_bfloat16_survives_the_round_trip) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const BFloat16 x{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(x);
    if (std::isnan(wide)) {
      BOOST_REQUIRE(std::isnan(to_float(to_bfloat16(wide))));
    } else {
      BOOST_REQUIRE(to_bfloat16(wide).bits == x.bits);
    }
  }
}

BOOST_AUTO_TEST_CASE(rounds_to_nearest_and_ties_to_even) {
  const auto round = [](std::uint32_t bits) {
    return to_bfloat16(std::bit_cast<float>(bits)).bits;
  };
  BOOST_TEST(round(0x3f807fff) == 0x3f80);
  BOOST_TEST(round(0x3f808000) == 0x3f80);  // a tie, down to even
  BOOST_TEST(round(0x3f808001) == 0x3f81);
  BOOST_TEST(round(0x3f818000) == 0x3f82);  // a tie, up to even
  BOOST_TEST(round(0x7f7fffff) == 0x7f80);  // the largest float32 rounds to infinity
  BOOST_TEST(round(0xff800000) == 0xff80);
  BOOST_TEST(round(0x00000001) == 0x0000);
}

BOOST_AUTO_TEST_CASE(a_nan_whose_payload_is_cut_off_stays_a_nan) {
  BOOST_TEST(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(0x7f800001u)))));
  BOOST_TEST(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(0xffffffffu)))));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
