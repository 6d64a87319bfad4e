#include "tensor/cpu/products/conversion.h"

#include <boost/test/unit_test.hpp>
#include <random>
#include <vector>

#include "tests/support/seed.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(conversion_test)

BOOST_AUTO_TEST_CASE(conversions_round_each_value_once_and_touch_no_other) {
  std::mt19937_64 random(test::fresh_seed());
  std::normal_distribution<float> normal;
  for (const int threads : {1, 3}) {
    for (const std::size_t count : {1u, 15u, 16u, 33u, 10'000u}) {
      const auto n = static_cast<std::int64_t>(count);
      std::vector<float> x(count + 1), wide(count + 1, 7);
      std::vector<BFloat16> addend(count + 1), y(count + 1, BFloat16{7});
      for (std::size_t i = 0; i < count; ++i) {
        x[i] = normal(random);
        addend[i] = to_bfloat16(normal(random));
      }
      widen(threads, addend.data(), wide.data(), n);
      for (std::size_t i = 0; i < count; ++i) BOOST_TEST(wide[i] == to_float(addend[i]));
      BOOST_TEST(wide[count] == 7);
      narrow(threads, x.data(), nullptr, y.data(), n);
      for (std::size_t i = 0; i < count; ++i) BOOST_TEST(y[i].bits == to_bfloat16(x[i]).bits);
      narrow(threads, x.data(), addend.data(), y.data(), n);
      for (std::size_t i = 0; i < count; ++i)
        BOOST_TEST(y[i].bits == to_bfloat16(x[i] + wide[i]).bits);
      BOOST_TEST(y[count].bits == 7);
      std::vector<float> rounded = x;
      round_to_bfloat16(threads, rounded.data(), n);
      for (std::size_t i = 0; i < count; ++i) BOOST_TEST(rounded[i] == to_float(to_bfloat16(x[i])));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
