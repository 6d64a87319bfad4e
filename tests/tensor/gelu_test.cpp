#include <limits>

#include "tests/support/reference_family_ops.h"
#include "tests/tensor/host.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(gelu_test)

namespace {

BOOST_AUTO_TEST_CASE(gelu_agrees_with_the_reference_and_works_in_place) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t count : {1, 15, 16, 17, 9001}) {
      const Tensor x = host.normal(dtype, {count}, "x", 3), dy = host.normal(dtype, {count}, "dy");
      const Tensor y = host.output(dtype, {count}), dx = host.output(dtype, {count});
      const Tensor copy = host.normal(dtype, {count}, "x", 3);
      host.ops().gelu(host.stream(), x, y);
      host.ops().gelu_backward(host.stream(), x, dy, dx);
      check_near(y, reference::gelu(Host::read(x)), tolerance_of(dtype));
      check_near(dx, reference::gelu_backward(Host::read(x), Host::read(dy)), tolerance_of(dtype));
      host.ops().gelu(host.stream(), copy, copy);
      BOOST_TEST(same_bits(copy, y));
      host.ops().gelu_backward(host.stream(), x, dy, dy);
      BOOST_TEST(same_bits(dy, dx));
      const Tensor dy_again = host.normal(dtype, {count}, "dy");
      host.ops().gelu_backward(host.stream(), x, dy_again, x);
      BOOST_TEST(same_bits(x, dx));
    }
  });
}

BOOST_AUTO_TEST_CASE(gelu_gives_the_same_bits_for_any_number_of_threads) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Host one(1), three(3);
    const auto run = [&](Host& host) {
      const Tensor x = host.normal(dtype, {20011}, "x", 3), dx = host.normal(dtype, {20011}, "dy");
      host.ops().gelu_backward(host.stream(), x, dx, dx);
      host.ops().gelu(host.stream(), x, x);
      return std::pair{x, dx};
    };
    const auto [y, dx] = run(one);
    const auto [y_of_three, dx_of_three] = run(three);
    BOOST_TEST(same_bits(y, y_of_three));
    BOOST_TEST(same_bits(dx, dx_of_three));
  }
}

BOOST_AUTO_TEST_CASE(gelu_is_exact_to_float32_over_the_whole_range) {
  Host host(1);
  Values at;
  for (double x = -12; x <= 12; x += 0.0173) at.push_back(static_cast<float>(x));
  const auto count = static_cast<std::int64_t>(at.size());
  const Tensor x = host.of(DType::f32, {count}, at), y = host.output(DType::f32, {count});
  const Tensor ones = host.of(DType::f32, {count}, Values(at.size(), 1));
  const Tensor dx = host.output(DType::f32, {count});
  host.ops().gelu(host.stream(), x, y);
  host.ops().gelu_backward(host.stream(), x, ones, dx);
  const Values expected = reference::gelu(at), got = Host::read(y), got_dx = Host::read(dx);
  const Values expected_dx = reference::gelu_backward(at, Host::read(ones));
  for (std::size_t i = 0; i < at.size(); ++i) {
    // The relative error of y is the absolute one of the exponent, a float32 of up to 90.
    if (at[i] > -9) BOOST_TEST(got[i] == expected[i], boost::test_tools::tolerance(1e-5));
    BOOST_TEST(std::abs(got[i] - expected[i]) < 3e-7 * std::max(1.0, std::abs(at[i])));
    BOOST_TEST(std::abs(got_dx[i] - expected_dx[i]) < 5e-7);
  }
}

BOOST_AUTO_TEST_CASE(gelu_of_any_finite_number_is_finite) {
  for_each_setup([](DType dtype, Host& host) {
    const Values at{-3e38, -1e30, -1e13, -100, 100, 1e13, 1e30, 3e38};
    const Tensor x = host.of(dtype, {8}, at), y = host.output(dtype, {8});
    const Tensor ones = host.of(dtype, {8}, Values(8, 1)), dx = host.output(dtype, {8});
    host.ops().gelu(host.stream(), x, y);
    host.ops().gelu_backward(host.stream(), x, ones, dx);
    const Values seen = Host::read(x), got = Host::read(y), slopes = Host::read(dx);
    for (std::size_t i = 0; i < 8; ++i) {
      BOOST_TEST(got[i] == std::max(seen[i], 0.0));
      BOOST_TEST(std::abs(slopes[i] - (i < 4 ? 0 : 1)) < 1e-30);
    }
  });
}

BOOST_AUTO_TEST_CASE(gelu_does_not_hide_a_nan) {
  for_each_setup([](DType dtype, Host& host) {
    const Tensor x = host.zeros(dtype, {19}), y = host.zeros(dtype, {19});
    Host::write(Values(19, std::numeric_limits<double>::quiet_NaN()), x);
    host.ops().gelu(host.stream(), x, y);
    for (const double value : Host::read(y)) BOOST_TEST(std::isnan(value));
    host.ops().gelu_backward(host.stream(), x, host.normal(dtype, {19}, "dy"), y);
    for (const double value : Host::read(y)) BOOST_TEST(std::isnan(value));
  });
}

BOOST_AUTO_TEST_CASE(geglu_agrees_with_the_reference_and_works_in_place) {
  for_each_setup([](DType dtype, Host& host) {
    for (const auto& [rows, width] : {std::pair{1, 1}, {3, 15}, {5, 64}, {70, 133}}) {
      const auto t = static_cast<std::size_t>(rows), f = static_cast<std::size_t>(width);
      const Tensor x = host.normal(dtype, {rows, 2 * width}, "x", 3);
      const Tensor dy = host.normal(dtype, {rows, width}, "dy");
      const Tensor y = host.output(dtype, {rows, width}), dx = host.output(dtype, x.shape);
      host.ops().geglu(host.stream(), x, y);
      host.ops().geglu_backward(host.stream(), x, dy, dx);
      check_near(y, reference::geglu(Host::read(x), t, f), tolerance_of(dtype));
      check_near(dx, reference::geglu_backward(Host::read(x), Host::read(dy), t, f),
                 tolerance_of(dtype));
      host.ops().geglu_backward(host.stream(), x, dy, x);
      BOOST_TEST(same_bits(x, dx));
    }
  });
}

BOOST_AUTO_TEST_CASE(geglu_does_not_hide_a_nan) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::size_t at : {0u, 15u, 19u, 39u}) {  // gates and ups
      Values values(40, 0.5);
      values[at] = std::numeric_limits<double>::quiet_NaN();
      const Tensor x = host.of(dtype, {1, 40}, values), y = host.output(dtype, {1, 20});
      host.ops().geglu(host.stream(), x, y);
      BOOST_TEST(std::isnan(Host::read(y)[at % 20]));
      BOOST_TEST(!std::isnan(Host::read(y)[(at + 1) % 20]));
    }
  });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
