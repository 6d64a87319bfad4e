#include "tests/support/seed.h"
#include "tests/tensor/host.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(dropout_test)

namespace {

/// dropout of x, a part of a global matrix, element by element.
Values expected_dropout(const Tensor& x, const Random& random, float p, const MatrixSlice& slice) {
  Values y = Host::read(x);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const std::uint32_t word = random.word(slice.index(at / x.shape[1], at % x.shape[1]));
    const bool kept = word >= std::floor(static_cast<double>(p) * 0x1p32);
    y[i] = kept ? y[i] / (1 - static_cast<double>(p)) : 0;
  }
  return y;
}

Values added(Values a, const Tensor& b) {
  const Values addend = Host::read(b);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += addend[i];
  return a;
}

/// Elements that are zero in one but not in the other.
std::size_t disagreements(const Values& a, const Values& b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += (a[i] == 0) != (b[i] == 0);
  return count;
}

BOOST_AUTO_TEST_CASE(dropout_draws_the_words_of_random) {
  const std::uint64_t seed = test::fresh_seed();
  const Random random(seed, "dropout");
  for_each_setup([&](DType dtype, Host& host) {
    for (const std::int64_t columns : {1, 7, 16, 63, 514, 1100}) {
      for (const float p : {0.0f, 0.1f, 0.5f, 0.99f}) {
        BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed << " " << columns << " columns, p " << p) {
          // The global index passes 2^32 in the first row, and is odd at the start of most.
          const MatrixSlice slice{
              .columns = columns + 3, .first_row = (1ll << 32) / (columns + 3), .first_column = 2};
          const Tensor x = host.normal(dtype, {11, columns}, "x");
          const Tensor y = host.output(dtype, {11, columns});
          host.ops().dropout(host.stream(), {p, random.key()}, slice, x, y);
          const Values expected = expected_dropout(x, random, p, slice);
          check_near(y, expected, tolerance_of(dtype));
          BOOST_TEST(disagreements(Host::read(y), expected) == 0u);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(dropout_adds_the_residual_and_works_in_place) {
  for_each_setup([](DType dtype, Host& host) {
    const Random random(5, "dropout");
    const Dropout dropout{0.3f, random.key()};
    const MatrixSlice slice{.columns = 96};
    const Shape shape{65, 96};
    const Tensor x = host.normal(dtype, shape, "x"), y = host.output(dtype, shape);
    const Tensor residual = host.normal(dtype, shape, "residual");
    host.ops().dropout(host.stream(), dropout, slice, x, y, residual);
    check_near(y, added(expected_dropout(x, random, dropout.p, slice), residual),
               tolerance_of(dtype));
    host.ops().dropout(host.stream(), dropout, slice, x, residual, residual);
    BOOST_TEST(same_bits(residual, y));
    host.ops().dropout(host.stream(), dropout, slice, x, y);
    host.ops().dropout(host.stream(), dropout, slice, x, x);
    BOOST_TEST(same_bits(x, y));
  });
}

// The gradient of an element is 1 / (1 - p) or 0, by the same draw as its value.
BOOST_AUTO_TEST_CASE(dropout_of_the_gradient_is_the_gradient_of_dropout) {
  Host host(1);
  const Dropout dropout{0.25f, Random(5, "dropout").key()};
  const MatrixSlice slice{.columns = 40, .first_row = 3};
  const Shape shape{4, 40};
  const auto apply = [&](const Values& values) {
    const Tensor x = host.zeros(DType::f32, shape);
    Host::write(values, x);
    host.ops().dropout(host.stream(), dropout, slice, x, x);
    return Host::read(x);
  };
  const Values x = Host::read(host.normal(DType::f32, shape, "x"));
  const Values dy = Host::read(host.normal(DType::f32, shape, "dy")), dx = apply(dy);
  for (std::size_t i = 0; i < x.size(); ++i) {
    Values above = x, below = x;
    above[i] += 0.5;
    below[i] -= 0.5;
    const double slope = apply(above)[i] - apply(below)[i];
    BOOST_TEST(std::abs(dx[i] - slope * dy[i]) < 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(a_slice_is_dropped_as_the_whole_is) {
  const Dropout dropout{0.4f, Random(5, "dropout").key()};
  for (const int threads : {1, 2, 3}) {
    Host host(threads);
    const Tensor whole = host.normal(DType::f32, {24, 90}, "x");
    host.ops().dropout(host.stream(), dropout, {.columns = 90}, whole, whole);
    const Values expected = Host::read(whole),
                 x = Host::read(host.normal(DType::f32, {24, 90}, "x"));
    for (const MatrixSlice slice : {MatrixSlice{.columns = 90, .first_row = 8},
                                    {.columns = 90, .first_row = 16, .first_column = 30},
                                    {.columns = 90, .first_row = 3, .first_column = 41}}) {
      const Tensor part = host.zeros(DType::f32, {8, 30});
      Values values;
      for (std::int64_t i = 0; i < 8 * 30; ++i) values.push_back(x[slice.index(i / 30, i % 30)]);
      Host::write(values, part);
      host.ops().dropout(host.stream(), dropout, slice, part, part);
      const Values got = Host::read(part);
      for (std::int64_t i = 0; i < 8 * 30; ++i) {
        BOOST_REQUIRE_EQUAL(got[static_cast<std::size_t>(i)],
                            expected[slice.index(i / 30, i % 30)]);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(dropout_drops_the_share_that_it_is_told) {
  const std::uint64_t seed = test::fresh_seed();
  Host host(2);
  for (const float p : {0.1f, 0.5f, 0.9f}) {
    BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed << " p " << p) {
      const Tensor x = host.zeros(DType::f32, {1000, 200});
      Host::write(Values(200000, 1), x);
      host.ops().dropout(host.stream(), {p, Random(seed, "p").key()}, {.columns = 200}, x, x);
      double dropped = 0, pairs = 0;  // neighbours that are both dropped
      const Values y = Host::read(x);
      for (std::size_t i = 0; i < y.size(); ++i) {
        dropped += y[i] == 0;
        pairs += y[i] == 0 && y[(i + 1) % y.size()] == 0;
      }
      const double share = p, pair = share * share;  // six standard deviations each
      BOOST_TEST(std::abs(dropped / 2e5 - share) < 6 * std::sqrt(share * (1 - share) / 2e5));
      BOOST_TEST(std::abs(pairs / 2e5 - pair) < 6 * std::sqrt(3 * pair * (1 - pair) / 2e5));
    }
  }
}

BOOST_AUTO_TEST_CASE(dropout_hides_a_nan_only_if_it_drops_it) {
  for_each_setup([](DType dtype, Host& host) {
    const Random random(5, "dropout");
    const Tensor x = host.zeros(dtype, {1, 100});
    Host::write(Values(100, std::nan("")), x);
    host.ops().dropout(host.stream(), {0.5f, random.key()}, {.columns = 100}, x, x);
    const Values y = Host::read(x);
    for (std::size_t i = 0; i < 100; ++i) {
      BOOST_TEST(std::isnan(y[i]) == (random.word(i) >= 0x80000000u));
    }
  });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
