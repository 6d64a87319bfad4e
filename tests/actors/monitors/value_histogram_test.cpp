#include "actors/monitors/value_histogram.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <vector>

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(value_histogram_test)

namespace {

using actors::ValueHistogram;

ValueHistogram histogram_of(std::vector<float> values) {
  ValueHistogram histogram;
  histogram.add(tensor::Tensor{
      values.data(), tensor::DType::f32, {static_cast<std::int64_t>(values.size())}});
  return histogram;
}

/// The only bin of a histogram of one number.
int bin_of(float x) {
  const ValueHistogram histogram = histogram_of({x});
  BOOST_REQUIRE(histogram.counts.size() == 1u);
  return histogram.counts.begin()->first;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_bin_holds_its_magnitudes) {
  for (int bin = 1; bin < ValueHistogram::kBins; ++bin) {
    const auto low = static_cast<float>(ValueHistogram::lower_end(bin));
    const auto end = static_cast<float>(ValueHistogram::lower_end(bin + 1));
    BOOST_TEST(bin_of(low) == bin);
    BOOST_TEST(bin_of(-std::nextafter(end, 0.0f)) == -bin);
  }
  BOOST_TEST(bin_of(0) == 0);
  BOOST_TEST(bin_of(-1e-30f) == 0);
  BOOST_TEST(bin_of(1e30f) == ValueHistogram::kBins);
}

BOOST_AUTO_TEST_CASE(only_finite_elements_count) {
  const ValueHistogram h = histogram_of({1.5f, -2.0f, INFINITY, NAN, 0.0f});
  BOOST_TEST(h.elements == 5);
  BOOST_TEST(h.not_finite == 2);
  BOOST_TEST(h.min == -2.0);
  BOOST_TEST(h.max == 1.5);
  BOOST_TEST(h.sum == -0.5);
  BOOST_TEST(h.squares == 6.25);
  std::uint64_t counted = 0;
  for (const auto& [bin, count] : h.counts) counted += count;
  BOOST_TEST(counted == 3u);
}

BOOST_AUTO_TEST_CASE(parts_add_up_to_the_whole) {
  const ValueHistogram whole = histogram_of({1, 2, -3, 4, 0.5f});
  ValueHistogram sum = histogram_of({1, 2});
  sum.add(histogram_of({-3, 4, 0.5f}));
  BOOST_TEST((sum.counts == whole.counts));
  BOOST_TEST((sum.elements == 5 && sum.min == -3 && sum.max == 4));
  BOOST_TEST((sum.sum == whole.sum && sum.squares == whole.squares));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
