#include "stages/stage/buckets.h"

#include <boost/test/unit_test.hpp>
#include <random>

#include "tests/support/seed.h"

namespace troupe::stages {

BOOST_AUTO_TEST_SUITE(buckets_test)

namespace {

struct Layout {
  std::vector<std::int64_t> offsets;
  std::int64_t size = 0;
};

Layout random_layout(std::mt19937_64& random) {
  const auto below = [&](std::int64_t end) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end));
  };
  Layout layout;
  for (std::int64_t left = 1 + below(40); left > 0; --left) {
    layout.offsets.push_back(layout.size);
    layout.size += 64 * (1 + below(below(10) == 0 ? 1000 : 10));
  }
  return layout;
}

std::vector<int> firsts(const std::vector<Bucket>& buckets) {
  std::vector<int> out;
  for (const Bucket& bucket : buckets) out.push_back(bucket.parameters.first);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(buckets_are_counted_from_the_end) {
  const std::vector<std::int64_t> offsets{0, 100, 110, 150, 250, 260};
  const auto cut = [&](const BucketRule& rule) {
    return firsts(cut_into_buckets(offsets, 300, rule));
  };
  BOOST_TEST((cut({.size = 1}) == std::vector{5, 4, 3, 2, 1, 0}));
  BOOST_TEST((cut({.size = 50}) == std::vector{4, 3, 1, 0}));
  BOOST_TEST((cut({.size = 51}) == std::vector{3, 0}));
  BOOST_TEST((cut({.size = 1000}) == std::vector{0}));
  BOOST_TEST((cut({.count = 1}) == std::vector{0}));
  BOOST_TEST((cut({.count = 2}) == std::vector{3, 0}));
  BOOST_TEST((cut({.count = 6}) == std::vector{5, 4, 3, 2, 1, 0}));
  BOOST_TEST((cut({.count = 100}) == std::vector{5, 4, 3, 2, 1, 0}));
}

BOOST_AUTO_TEST_CASE(seams_decide_before_the_rule_does) {
  const std::vector<std::int64_t> offsets{0, 100, 110, 150, 250, 260};
  const auto cut = [&](const BucketRule& rule, const std::vector<Seam>& seams) {
    return firsts(cut_into_buckets(offsets, 300, rule, seams));
  };
  const auto f = Seam::free, j = Seam::joined, c = Seam::cut;
  // A full bucket waits for the first parameter of what is joined.
  BOOST_TEST((cut({.size = 1}, {f, f, j, f, j, f}) == std::vector{5, 3, 1, 0}));
  BOOST_TEST((cut({.size = 1}, {f, f, f, f, f, f}) == std::vector{5, 4, 3, 2, 1, 0}));
  BOOST_TEST((cut({.size = 50}, {f, j, f, f, j, f}) == std::vector{3, 0}));
  // A bucket that is not full ends at a cut.
  BOOST_TEST((cut({.size = 1000}, {f, f, c, f, f, f}) == std::vector{2, 0}));
  BOOST_TEST((cut({.size = 51}, {f, f, f, f, f, c}) == std::vector{5, 3, 0}));
  // Without a rule there are the cuts alone.
  BOOST_TEST((cut({}, {f, f, c, j, c, f}) == std::vector{4, 2, 0}));
  BOOST_TEST((cut({}, {f, f, f, f, f, f}) == std::vector{0}));
}

BOOST_AUTO_TEST_CASE(buckets_cover_a_layout_with_whole_parameters) {
  std::mt19937_64 random(test::fresh_seed());
  for (int round = 0; round < 2000; ++round) {
    const Layout layout = random_layout(random);
    const auto count = static_cast<int>(1 + random() % 50);
    const auto size = static_cast<std::int64_t>(1 + random() % 5000);
    for (const BucketRule& rule : {BucketRule{.size = size}, {.count = count}}) {
      const auto buckets = cut_into_buckets(layout.offsets, layout.size, rule);
      const int parameters = static_cast<int>(layout.offsets.size());
      if (rule.count > 0) BOOST_REQUIRE(std::ssize(buckets) == std::min(count, parameters));
      int end = parameters;
      std::int64_t end_element = layout.size;
      for (const Bucket& bucket : buckets) {
        BOOST_REQUIRE(bucket.parameters.end == std::exchange(end, bucket.parameters.first));
        BOOST_REQUIRE(bucket.parameters.first < bucket.parameters.end);
        BOOST_REQUIRE(bucket.begin ==
                      layout.offsets[static_cast<std::size_t>(bucket.parameters.first)]);
        BOOST_REQUIRE(bucket.end == std::exchange(end_element, bucket.begin));
        if (rule.size == 0) continue;
        const bool is_last = bucket.parameters.first == 0;
        BOOST_REQUIRE((is_last || bucket.size() >= size));
        // Without its first parameter it would not be full.
        const auto second = static_cast<std::size_t>(bucket.parameters.first) + 1;
        if (second < static_cast<std::size_t>(bucket.parameters.end))
          BOOST_REQUIRE(bucket.end - layout.offsets[second] < size);
      }
      BOOST_REQUIRE(end == 0);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::stages
