#include "stages/stage/slices.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <random>

#include "tests/support/seed.h"

namespace troupe::stages {

BOOST_AUTO_TEST_SUITE(slices_test)

namespace {

struct Layout {
  std::vector<tensor::Shape> shapes;
  std::vector<std::int64_t> offsets;
  std::int64_t size = 0;
};

Layout random_layout(std::mt19937_64& random) {
  const auto below = [&](std::int64_t end) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end));
  };
  Layout layout;
  for (std::int64_t left = 1 + below(20); left > 0; --left) {
    const tensor::Shape shape = below(3) == 0 ? tensor::Shape{1 + below(9000)}
                                              : tensor::Shape{1 + below(900), 1 + below(300)};
    layout.shapes.push_back(shape);
    layout.offsets.push_back(layout.size);
    layout.size += (shape.num_elements() + 63) / 64 * 64;
  }
  return layout;
}

}  // namespace

BOOST_AUTO_TEST_CASE(pieces_are_whole_rows_and_cover_each_parameter_once) {
  std::mt19937_64 random(test::fresh_seed());
  for (int round = 0; round < 100; ++round) {
    const Layout layout = random_layout(random);
    const auto pieces = cut_into_pieces(layout.shapes, layout.offsets);
    std::size_t next = 0;
    for (std::size_t i = 0; i < layout.shapes.size(); ++i) {
      const std::int64_t rows = layout.shapes[i][0];
      const std::int64_t columns = layout.shapes[i].num_elements() / rows;
      std::int64_t at = layout.offsets[i];
      for (; next < pieces.size() && pieces[next].parameter == static_cast<int>(i); ++next) {
        BOOST_TEST(pieces[next].begin == at);
        BOOST_TEST(pieces[next].row * columns == at - layout.offsets[i]);
        BOOST_TEST((pieces[next].end - pieces[next].begin) % columns == 0);
        at = pieces[next].end;
      }
      BOOST_TEST(at == layout.offsets[i] + layout.shapes[i].num_elements());
    }
    BOOST_TEST(next == pieces.size());
  }
}

BOOST_AUTO_TEST_CASE(slices_cover_each_bucket_once_and_are_even_but_for_a_piece) {
  std::mt19937_64 random(test::fresh_seed());
  for (int round = 0; round < 100; ++round) {
    const Layout layout = random_layout(random);
    const auto pieces = cut_into_pieces(layout.shapes, layout.offsets);
    std::int64_t longest = 0;  // with the padding behind it
    for (std::size_t i = 0; i < pieces.size(); ++i)
      longest = std::max(
          longest, (i + 1 < pieces.size() ? pieces[i + 1].begin : layout.size) - pieces[i].begin);
    for (const int count : {1, 2, 3, 7})
      for (const BucketRule rule : {BucketRule{.size = 1}, {.size = 100'000}, {.count = 1}})
        for (const Bucket& bucket : cut_into_buckets(layout.offsets, layout.size, rule)) {
          const auto slices = cut_into_slices(bucket, pieces, count);
          BOOST_REQUIRE(std::ssize(slices) == count);
          std::int64_t at = bucket.begin;
          for (int i = 0; i < count; ++i) {
            const Slice& slice = slices[static_cast<std::size_t>(i)];
            BOOST_TEST(slice.begin == at);
            at = slice.end;
            BOOST_TEST(2 * std::abs(at - bucket.begin - bucket.size() * (i + 1) / count) <=
                       longest);
            for (int p = slice.pieces.first; p < slice.pieces.end; ++p) {
              BOOST_TEST(pieces[static_cast<std::size_t>(p)].begin >= slice.begin);
              BOOST_TEST(pieces[static_cast<std::size_t>(p)].end <= slice.end);
            }
          }
          BOOST_TEST(at == bucket.end);
        }
  }
}

BOOST_AUTO_TEST_CASE(rows_are_cut_where_slices_are) {
  // Pieces of 16 rows: 4096 elements of 256 columns.
  const std::vector<tensor::Shape> shapes{{64, 256}, {32, 256}, {100}};
  const std::vector<std::int64_t> offsets{0, 64 * 256, 96 * 256};
  const std::int64_t size = 96 * 256 + 128;
  const auto cuts = [&](const BucketRule& rule, int count) {
    return cut_rows(shapes, offsets, cut_into_buckets(offsets, size, rule),
                    cut_into_pieces(shapes, offsets), count);
  };
  using Cuts = std::vector<std::vector<std::int64_t>>;
  BOOST_TEST((cuts({.count = 1}, 1) == Cuts{{0, 64}, {0, 32}, {0, 100}}));
  BOOST_TEST((cuts({.count = 1}, 2) == Cuts{{0, 48, 64}, {0, 0, 32}, {0, 0, 100}}));
  BOOST_TEST((cuts({.size = 1}, 2) == Cuts{{0, 32, 64}, {0, 16, 32}, {0, 100, 100}}));
  BOOST_TEST((cuts({.count = 1}, 3) == Cuts{{0, 32, 64, 64}, {0, 0, 0, 32}, {0, 0, 0, 100}}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::stages
