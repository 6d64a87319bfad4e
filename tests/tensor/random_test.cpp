#include "tensor/random.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <set>
#include <vector>

namespace troupe::tensor {
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

// These numbers are frozen, because a change of them changes the initial weights of every run.
BOOST_AUTO_TEST_CASE(values_do_not_change_between_versions) {
  const Random random(42, "model.embed_tokens.weight");
  BOOST_TEST(random.bits(0) == 12733554058005340948u);
  BOOST_TEST(random.bits(1) == 3187682414133516687u);
  BOOST_TEST(random.normal(12345) == -1.6769925872628761, boost::test_tools::tolerance(1e-14));
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

}  // namespace
}  // namespace troupe::tensor
