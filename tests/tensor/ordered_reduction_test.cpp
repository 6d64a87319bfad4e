#include "tensor/cpu/ops/ordered_reduction.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/seed.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(ordered_reduction_test)

namespace {

template <typename T>
std::vector<const std::byte*> pointers(const std::vector<std::vector<T>>& parts) {
  std::vector<const std::byte*> all;
  for (const auto& part : parts) all.push_back(reinterpret_cast<const std::byte*>(part.data()));
  return all;
}

/// The reduction of parts whose memory is aligned to an element only.
template <typename T>
std::vector<T> reduced(const std::vector<std::vector<T>>& parts, DType dtype, Reduction reduction) {
  std::vector<T> out(parts[0].size() + 1, T{77});
  ordered_reduction(pointers(parts), reinterpret_cast<std::byte*>(out.data()), parts[0].size(),
                    dtype, reduction);
  BOOST_TEST((out.back() == T{77}));  // nothing is written past the end
  out.pop_back();
  return out;
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

BOOST_AUTO_TEST_CASE(sums_add_one_part_after_the_other) {
  std::mt19937_64 random(test::fresh_seed());
  std::normal_distribution<float> normal;
  for (const std::size_t count : {1u, 7u, 16u, 33u, 1000u}) {
    std::vector<std::vector<float>> parts(5, std::vector<float>(count));
    for (auto& part : parts)
      for (float& x : part) x = std::ldexp(normal(random), static_cast<int>(random() % 40));
    const auto out = reduced(parts, DType::f32, Reduction::sum);
    for (std::size_t i = 0; i < count; ++i) {
      float sum = parts[0][i];
      for (std::size_t p = 1; p < parts.size(); ++p) sum += parts[p][i];
      BOOST_TEST(out[i] == sum);
    }
  }
}

BOOST_AUTO_TEST_CASE(bfloat16_is_rounded_once) {
  // In bfloat16, with 8 significant bits, 256 + 1 would be 256 after each addition.
  const auto bf16 = [](float x) { return std::vector<std::uint16_t>(19, to_bfloat16(x).bits); };
  const auto out =
      reduced<std::uint16_t>({bf16(256), bf16(1), bf16(1)}, DType::bf16, Reduction::sum);
  for (const std::uint16_t bits : out) BOOST_TEST(to_float(BFloat16{bits}) == 258.0f);
}

BOOST_AUTO_TEST_CASE(bfloat16_may_be_left_in_float32) {
  std::mt19937_64 random(test::fresh_seed());
  std::normal_distribution<float> normal;
  for (const std::size_t count : {1u, 7u, 16u, 33u, 1000u}) {
    std::vector<std::vector<BFloat16>> parts(5, std::vector<BFloat16>(count));
    for (auto& part : parts)
      for (BFloat16& x : part) x = to_bfloat16(normal(random));
    std::vector<float> sums(count + 1, 77), averages(count + 1, 77);
    ordered_reduction_to_f32(pointers(parts), reinterpret_cast<std::byte*>(sums.data()), count,
                             Reduction::sum);
    ordered_reduction_to_f32(pointers(parts), reinterpret_cast<std::byte*>(averages.data()), count,
                             Reduction::average);
    for (std::size_t i = 0; i < count; ++i) {
      float sum = to_float(parts[0][i]);
      for (std::size_t p = 1; p < parts.size(); ++p) sum += to_float(parts[p][i]);
      BOOST_TEST(sums[i] == sum);
      BOOST_TEST(averages[i] == sum / 5);
    }
    BOOST_TEST(sums[count] == 77.0f);  // nothing is written past the end
    BOOST_TEST(averages[count] == 77.0f);
  }
}

BOOST_AUTO_TEST_CASE(a_maximum_is_nan_where_any_part_is) {
  std::vector<std::vector<float>> parts{{1, kNan, 3, -2, kNan}, {5, 2, kNan, -7, kNan}};
  for (auto& part : parts) part.resize(37, part[0]);
  const auto out = reduced(parts, DType::f32, Reduction::max);
  BOOST_TEST(out[0] == 5.0f);
  BOOST_TEST(std::isnan(out[1]));
  BOOST_TEST(std::isnan(out[2]));
  BOOST_TEST(out[3] == -2.0f);
  BOOST_TEST(std::isnan(out[4]));
  BOOST_TEST(out[36] == 5.0f);
}

BOOST_AUTO_TEST_CASE(integers_wrap_around_and_averages_round_to_zero) {
  constexpr auto kMost = std::numeric_limits<std::int32_t>::max();
  const std::vector<std::vector<std::int32_t>> parts{{kMost, -7, 7, 3}, {1, 0, 0, 9}};
  const std::vector<std::int32_t> sums{std::numeric_limits<std::int32_t>::min(), -7, 7, 12};
  BOOST_TEST(reduced(parts, DType::i32, Reduction::sum) == sums, boost::test_tools::per_element());
  const auto averages = reduced(parts, DType::i32, Reduction::average);
  BOOST_TEST(averages[1] == -3);
  BOOST_TEST(averages[2] == 3);
  const std::vector<std::vector<std::int64_t>> wide{{1ll << 60, -5, 2}, {1ll << 60, -6, 3}};
  const std::vector<std::int64_t> wide_sums{1ll << 61, -11, 5}, largest{1ll << 60, -5, 3};
  BOOST_TEST(reduced(wide, DType::i64, Reduction::sum) == wide_sums,
             boost::test_tools::per_element());
  BOOST_TEST(reduced(wide, DType::i64, Reduction::max) == largest,
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_result_may_replace_a_part) {
  std::vector<std::vector<double>> parts(3, std::vector<double>(101, 0.1));
  const auto expected = reduced(parts, DType::f64, Reduction::average);
  for (std::size_t replaced = 0; replaced < 3; ++replaced) {
    auto own = parts;
    ordered_reduction(pointers(own), reinterpret_cast<std::byte*>(own[replaced].data()), 101,
                      DType::f64, Reduction::average);
    BOOST_TEST(own[replaced] == expected, boost::test_tools::per_element());
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
