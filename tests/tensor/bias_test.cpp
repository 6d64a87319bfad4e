#include "tests/support/reference_gpt2_ops.h"
#include "tests/tensor/host.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(bias_test)

namespace {

constexpr std::int64_t kRows[] = {1, 5, 63, 64, 65, 130, 300};
constexpr std::int64_t kChannels[] = {7, 16, 64, 133};

Values sum(Values a, const Values& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

BOOST_AUTO_TEST_CASE(add_bias_agrees_with_the_reference) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t rows : kRows) {
      for (const std::int64_t channels : kChannels) {
        BOOST_TEST_CONTEXT(rows << " rows, " << channels << " channels") {
          const Tensor b = host.normal(DType::f32, {channels}, "b");
          const Tensor residual = host.normal(dtype, {rows, channels}, "residual");
          const Tensor y = host.normal(dtype, {rows, channels}, "y");
          const Values expected = reference::add_bias(Host::read(y), Host::read(b));
          host.ops().add_bias(host.stream(), b, y);
          check_near(y, expected, tolerance_of(dtype));
          const Tensor again = host.normal(dtype, {rows, channels}, "y");
          host.ops().add_bias(host.stream(), b, again, residual);
          check_near(again, sum(expected, Host::read(residual)), tolerance_of(dtype));
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(bias_gradient_writes_the_first_and_adds_the_later_ones) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t rows : kRows) {
      for (const std::int64_t channels : kChannels) {
        BOOST_TEST_CONTEXT(rows << " rows, " << channels << " channels") {
          const Tensor dy = host.normal(dtype, {rows, channels}, "dy");
          const Tensor db = host.output(DType::f32, {channels});
          const Values expected =
              reference::bias_gradient(Host::read(dy), static_cast<std::size_t>(channels));
          host.ops().bias_gradient(host.stream(), dy, db, Gradient::first);
          check_near(db, expected, tolerance_of(DType::f32));
          const Values first = Host::read(db);
          host.ops().bias_gradient(host.stream(), dy, db, Gradient::added);
          const Values both = Host::read(db);
          for (std::size_t c = 0; c < both.size(); ++c) BOOST_TEST(both[c] == 2 * first[c]);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(bias_gradient_gives_the_same_bits_for_any_number_of_threads) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto run = [&](int threads) {
      Host host(threads);
      const Tensor db = host.normal(DType::f32, {1000}, "db");
      host.ops().bias_gradient(host.stream(), host.normal(dtype, {300, 1000}, "dy"), db,
                               Gradient::added);
      return Host::read(db);
    };
    const Values expected = run(1);
    for (const int threads : {2, 3, 5}) BOOST_TEST((run(threads) == expected));
  }
}

// One running float32 sum of so many equal numbers would be wrong in its third digit.
BOOST_AUTO_TEST_CASE(bias_gradient_keeps_its_digits_in_a_long_sum) {
  Host host(1);
  constexpr std::int64_t kMany = 200000;
  const Tensor dy = host.of(DType::f32, {kMany, 3}, Values(3 * kMany, 0.1));
  const Tensor db = host.output(DType::f32, {3});
  host.ops().bias_gradient(host.stream(), dy, db, Gradient::first);
  for (const double got : Host::read(db)) {
    BOOST_TEST(got == 0.1f * static_cast<double>(kMany), boost::test_tools::tolerance(1e-4));
  }
}

BOOST_AUTO_TEST_CASE(biases_do_not_hide_a_nan) {
  for_each_setup([](DType dtype, Host& host) {
    const Tensor y = host.zeros(dtype, {2, 20}), db = host.output(DType::f32, {20});
    Values values(2 * 20, 0.5);
    values[23] = std::nan("");
    Host::write(values, y);
    host.ops().add_bias(host.stream(), host.normal(DType::f32, {20}, "b"), y);
    host.ops().bias_gradient(host.stream(), y, db, Gradient::first);
    for (std::size_t c = 0; c < 20; ++c) {
      BOOST_TEST(std::isnan(Host::read(y)[20 + c]) == (c == 3));
      BOOST_TEST(std::isnan(Host::read(db)[c]) == (c == 3));
    }
  });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
