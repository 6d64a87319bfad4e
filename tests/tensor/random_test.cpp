#include "tensor/values/random.h"

#include <hwy/targets.h>

#include <algorithm>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "tensor/cpu/ops/random_fills.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(random_test)

namespace {

// Weights of a run that was begun with an older build must come out the same.
BOOST_AUTO_TEST_CASE(the_bits_of_a_seed_and_name_never_change) {
  const Random random(9, "w");
  BOOST_TEST(random.bits(0) == 0xadc909001c0aea99u);
  BOOST_TEST(random.bits(1) == 0xeffdc7168501edbfu);
  BOOST_TEST(random.bits(2) == 0xad603c8255f74c0cu);
  BOOST_TEST(random.bits((std::uint64_t{1} << 33) + 1) == 0xe44179e964c79eadu);
  BOOST_TEST(random.normal(0) == 0x1.6471a2888f71p+0);
}

BOOST_AUTO_TEST_CASE(values_depend_on_seed_name_and_index_alone) {
  const Random a(1, "layer.0"), same(1, "layer.0");
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    BOOST_REQUIRE_EQUAL(a.bits(i), same.bits(i));
    seen.insert({a.bits(i), Random(2, "layer.0").bits(i), Random(1, "layer.1").bits(i),
                 Random(1, "").bits(i)});
  }
  BOOST_TEST(seen.size() == 4000u);
}

BOOST_AUTO_TEST_CASE(parts_of_a_name_have_numbers_of_their_own) {
  const Random whole(1, "dropout");
  std::set<std::uint64_t> keys{whole.key(), Random(2, "dropout").part(0).key()};
  for (std::uint64_t layer = 0; layer < 30; ++layer)
    for (std::uint64_t step = 0; step < 30; ++step) keys.insert(whole.part(layer).part(step).key());
  BOOST_TEST(keys.size() == 902u);
  BOOST_TEST(whole.part(3).part(4).word(5) == Random(1, "dropout").part(3).part(4).word(5));
}

// These numbers are frozen, because a change of them changes the initial weights of every run.
BOOST_AUTO_TEST_CASE(values_do_not_change_between_versions) {
  const Random random(42, "model.embed_tokens.weight");
  BOOST_TEST(random.bits(0) == 12733554058005340948u);
  BOOST_TEST(random.bits(1) == 3187682414133516687u);
  BOOST_TEST(random.normal(12345) == -1.6769925872628761, boost::test_tools::tolerance(1e-14));
}

BOOST_AUTO_TEST_CASE(words_are_the_bits_of_the_same_blocks) {
  const Random random(9, "w");
  BOOST_TEST(random.word(0) == 0x1c0aea99u);
  BOOST_TEST(random.word(1) == 0xadc90900u);
  for (std::uint64_t i = 0; i < 100; ++i) {
    const std::uint64_t upper = random.word(2 * i + 1);
    BOOST_TEST((upper << 32 | random.word(2 * i)) == random.bits(i));
  }
}

BOOST_AUTO_TEST_CASE(uniform_fills_the_unit_interval_evenly) {
  const Random random(3, "uniform");
  constexpr int kCount = 100000, kBins = 10;
  std::vector<int> bins(kBins);
  for (int i = 0; i < kCount; ++i) {
    const double u = random.uniform(static_cast<std::uint64_t>(i));
    BOOST_REQUIRE(u >= 0.0);
    BOOST_REQUIRE(u < 1.0);
    ++bins[static_cast<std::size_t>(u * kBins)];
  }
  for (const int count : bins) BOOST_TEST(std::abs(count - kCount / kBins) < 500);  // 5 sigma
}

BOOST_AUTO_TEST_CASE(normal_has_the_moments_of_a_standard_normal) {
  const Random random(4, "normal");
  constexpr int kCount = 200000;
  double sum = 0, squares = 0, fourth = 0, neighbours = 0, previous = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = random.normal(static_cast<std::uint64_t>(i));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    neighbours += x * previous;
    previous = x;
  }
  BOOST_TEST(std::abs(sum / kCount) < 0.012);  // 5 sigma each
  BOOST_TEST(std::abs(squares / kCount - 1) < 0.016);
  BOOST_TEST(std::abs(fourth / kCount - 3) < 0.11);
  BOOST_TEST(std::abs(neighbours / kCount) < 0.012);
}

BOOST_AUTO_TEST_CASE(fill_normal_scales_the_values_of_its_name_on_any_number_of_threads) {
  const Random random(9, "w");
  for (const int threads : {1, 3}) {
    std::vector<float> values(1001);
    fill_normal({values.data(), DType::f32, {7, 143}}, 9, "w", 0.02, threads);
    for (std::size_t i = 0; i < values.size(); ++i)
      BOOST_REQUIRE_EQUAL(values[i], static_cast<float>(0.02 * random.normal(i)));
  }
}

/// Calls body(slice, rows, columns) for parts of a matrix [12, 10] as shards hold them, and one
/// that touches no edge of it.
template <typename Body>
void for_each_slice(const Body& body) {
  for (const std::int64_t first_row : {0, 4, 8})
    body(MatrixSlice{.columns = 10, .first_row = first_row}, 4, 10);
  for (const std::int64_t first_column : {0, 5})
    body(MatrixSlice{.columns = 10, .first_column = first_column}, 12, 5);
  body(MatrixSlice{.columns = 10, .first_row = 3, .first_column = 7}, 5, 2);
}

/// Whether fill(tensor, slice, threads) gives every slice the values it gives the whole matrix.
template <typename Fill>
void check_slices(const Fill& fill) {
  std::vector<float> whole(12 * 10);
  fill(Tensor{whole.data(), DType::f32, {12, 10}}, MatrixSlice{.columns = 10}, 1);
  for_each_slice([&](const MatrixSlice& slice, std::int64_t rows, std::int64_t columns) {
    for (const int threads : {1, 3}) {
      std::vector<float> part(static_cast<std::size_t>(rows * columns));
      fill(Tensor{part.data(), DType::f32, {rows, columns}}, slice, threads);
      for (std::int64_t i = 0; i < rows * columns; ++i) {
        BOOST_REQUIRE_EQUAL(part[static_cast<std::size_t>(i)],
                            whole[slice.index(i / columns, i % columns)]);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_slice_gets_the_values_of_the_whole_matrix) {
  check_slices([](const Tensor& x, const MatrixSlice& slice, int threads) {
    fill_normal(x, slice, 9, "w", 0.02, threads);
  });
  check_slices([](const Tensor& x, const MatrixSlice& slice, int threads) {
    fill_uniform(x, slice, 9, "w", 0.02, threads);
  });
}

/// Calls check() for every set of kernels that this processor can run: its best, AVX2, plain C++.
void for_each_target(const std::function<void()>& check) {
  check();
  hwy::ChosenTarget& chosen = hwy::GetChosenTarget();
  const std::int64_t lesser[] = {hwy::SupportedTargets() & HWY_AVX2, 0};
  for (const std::int64_t targets : lesser) {
    chosen.Update(targets);
    check();
  }
  chosen.DeInit();
}

// So many that some values lie too close to the middle of two floats for a vector to tell them.
BOOST_AUTO_TEST_CASE(vectors_have_the_bits_of_one_value_at_a_time) {
  constexpr std::int64_t kCount = 400'003;
  const Random random(9, "w");
  std::vector<float> normal(kCount), uniform(kCount);
  // From an odd index, of which the upper word is not zero.
  const MatrixSlice slice{.columns = std::int64_t{1} << 34, .first_row = 3, .first_column = 5};
  for_each_target([&] {
    fill_normal({normal.data(), DType::f32, {1, kCount}}, slice, 9, "w", 0.02, 2);
    fill_uniform({uniform.data(), DType::f32, {1, kCount}}, slice, 9, "w", 0.02, 2);
    int differ = 0;
    for (std::int64_t i = 0; i < kCount; ++i) {
      const std::uint64_t index = slice.index(0, i);
      const auto at = static_cast<std::size_t>(i);
      const auto one = static_cast<float>(0.02 * random.normal(index));
      const auto other = static_cast<float>(0.02 * (2 * random.uniform(index) - 1));
      differ += std::bit_cast<std::uint32_t>(normal[at]) != std::bit_cast<std::uint32_t>(one);
      differ += std::bit_cast<std::uint32_t>(uniform[at]) != std::bit_cast<std::uint32_t>(other);
    }
    BOOST_TEST(differ == 0);
  });
}

BOOST_AUTO_TEST_CASE(fill_normal_of_the_whole_matrix_is_fill_normal) {
  std::vector<float> whole(12 * 10), sliced(12 * 10);
  const Shape shape{12, 10};
  fill_normal({whole.data(), DType::f32, shape}, 9, "w", 0.02, 1);
  fill_normal({sliced.data(), DType::f32, shape}, MatrixSlice{.columns = 10}, 9, "w", 0.02, 1);
  BOOST_TEST(whole == sliced, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(xavier_has_the_variance_that_its_fans_ask_for) {
  constexpr std::int64_t kIn = 400, kOut = 200;
  std::vector<float> w(kIn * kOut);
  const double bound = xavier_bound(kIn, kOut);
  fill_uniform({w.data(), DType::f32, {kOut, kIn}}, {.columns = kIn}, 9, "w", bound, 2);
  double sum = 0, squares = 0;
  for (const float value : w) {
    BOOST_REQUIRE(std::abs(value) <= 0.1f);  // sqrt(6 / 600)
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const double count = kIn * kOut;
  BOOST_TEST(std::abs(sum / count) < 5 * 0.1 / std::sqrt(3 * count));
  // 2 / (fan_in + fan_out); the square of a uniform number in [-1, 1] has variance 4 / 45.
  BOOST_TEST(std::abs(squares / count - 2.0 / 600) < 5 * 0.01 * std::sqrt(4.0 / 45 / count));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
