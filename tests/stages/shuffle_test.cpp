#include "stages/corpus/samples/shuffle.h"

#include <boost/test/unit_test.hpp>
#include <random>
#include <set>
#include <vector>

#include "tests/support/seed.h"

BOOST_AUTO_TEST_SUITE(shuffle_test)

using namespace troupe::stages;

namespace {

bool is_permutation(std::uint64_t seed, std::int64_t epoch, std::int64_t num_samples) {
  std::vector<bool> taken(static_cast<std::size_t>(num_samples));
  for (std::int64_t n = 0; n < num_samples; ++n) {
    const std::int64_t place = shuffled(seed, epoch, num_samples, n);
    if (place < 0 || place >= num_samples || taken[static_cast<std::size_t>(place)]) return false;
    taken[static_cast<std::size_t>(place)] = true;
  }
  return true;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_number_of_samples_is_permuted) {
  std::mt19937_64 random(troupe::test::fresh_seed());
  for (std::int64_t num_samples = 1; num_samples <= 300; ++num_samples)
    BOOST_REQUIRE_MESSAGE(
        is_permutation(random(), static_cast<std::int64_t>(random() % 9), num_samples),
        num_samples << " samples");
  for (const std::int64_t num_samples : {1023, 1024, 1025, 65535, 65536, 65537, 300007})
    BOOST_REQUIRE_MESSAGE(is_permutation(random(), 1, num_samples), num_samples << " samples");
}

BOOST_AUTO_TEST_CASE(large_corpora_stay_in_range_without_repeats) {
  std::mt19937_64 random(troupe::test::fresh_seed());
  const std::int64_t num_samples = (std::int64_t{1} << 61) + 12345;
  const std::uint64_t seed = random();
  std::set<std::int64_t> seen;
  for (std::int64_t n = num_samples - 2000; n < num_samples; ++n) {
    const std::int64_t place = shuffled(seed, 0, num_samples, n);
    BOOST_REQUIRE(place >= 0);
    BOOST_REQUIRE(place < num_samples);
    seen.insert(place);
  }
  BOOST_TEST(seen.size() == 2000u);
}

// Chi-square over 16 x 16 cells (a sample's old and new position): 255 degrees of freedom at most,
// so that 400 lies six standard deviations out.
BOOST_AUTO_TEST_CASE(samples_go_everywhere_alike) {
  constexpr std::int64_t kSamples = 160000;
  constexpr double kExpected = kSamples / 256.0;
  std::vector<double> cells(256);
  for (std::int64_t n = 0; n < kSamples; ++n)
    ++cells[static_cast<std::size_t>(n * 16 / kSamples * 16 +
                                     shuffled(1, 0, kSamples, n) * 16 / kSamples)];
  double chi_square = 0;
  for (const double count : cells)
    chi_square += (count - kExpected) * (count - kExpected) / kExpected;
  BOOST_TEST(chi_square < 400);
}

BOOST_AUTO_TEST_CASE(seeds_and_epochs_have_orders_of_their_own) {
  constexpr std::int64_t kSamples = 1000;
  int fixed = 0, same_epoch = 0, same_seed = 0;
  for (std::int64_t n = 0; n < kSamples; ++n) {
    const std::int64_t place = shuffled(1, 0, kSamples, n);
    fixed += place == n;
    same_epoch += place == shuffled(1, 1, kSamples, n);
    same_seed += place == shuffled(2, 0, kSamples, n);
  }
  // Each count is Poisson with mean 1.
  BOOST_TEST(fixed < 10);
  BOOST_TEST(same_epoch < 10);
  BOOST_TEST(same_seed < 10);
}

// The values were computed from the formula in stages/corpus/README.md by a separate program. A
// run's data order must never change.
BOOST_AUTO_TEST_CASE(the_order_is_the_documented_one) {
  std::vector<std::int64_t> order;
  for (std::int64_t n = 0; n < 10; ++n) order.push_back(shuffled(1234, 0, 10, n));
  const std::vector<std::int64_t> expected = {8, 7, 4, 6, 0, 2, 1, 5, 3, 9};
  BOOST_TEST(order == expected, boost::test_tools::per_element());
  BOOST_TEST(shuffled(1234, 3, 1'000'000'007, 42) == 152312024);
}

BOOST_AUTO_TEST_SUITE_END()
