#include <limits>

#include "tests/tensor/host.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(scaling_test)

namespace {

constexpr std::int64_t kCounts[] = {1, 15, 16, 17, 9001};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

BOOST_AUTO_TEST_CASE(scale_and_add_scaled_agree_with_the_reference_and_work_in_place) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t count : kCounts) {
      const Tensor x = host.normal(dtype, {count}, "x", 3);
      const Tensor residual = host.normal(dtype, {count}, "residual");
      const Tensor y = host.output(dtype, {count}), sum = host.output(dtype, {count});
      host.ops().scale(host.stream(), x, 0.22f, y);
      host.ops().add_scaled(host.stream(), x, 0.22f, residual, sum);
      Values scaled = Host::read(x), added = Host::read(residual);
      for (std::size_t i = 0; i < scaled.size(); ++i) added[i] += scaled[i] *= double{0.22f};
      check_near(y, scaled, tolerance_of(dtype));
      check_near(sum, added, tolerance_of(dtype));
      host.ops().add_scaled(host.stream(), x, 0.22f, residual, residual);
      BOOST_TEST(same_bits(residual, sum));
      host.ops().add_scaled(host.stream(), x, 0.22f, host.normal(dtype, {count}, "residual"), x);
      BOOST_TEST(same_bits(x, sum));
      const Tensor again = host.normal(dtype, {count}, "x", 3);
      host.ops().scale(host.stream(), again, 0.22f, again);
      BOOST_TEST(same_bits(again, y));
    }
  });
}

BOOST_AUTO_TEST_CASE(add_scaled_by_one_is_accumulate) {
  for_each_setup([](DType dtype, Host& host) {
    const Tensor x = host.normal(dtype, {1001}, "x"), y = host.normal(dtype, {1001}, "y");
    const Tensor sum = host.output(dtype, {1001});
    host.ops().add_scaled(host.stream(), x, 1, y, sum);
    host.ops().accumulate(host.stream(), x, y);
    BOOST_TEST(same_bits(sum, y));
  });
}

BOOST_AUTO_TEST_CASE(capped_logits_agree_with_the_reference_and_work_in_place) {
  for_each_setup([](DType dtype, Host& host) {
    for (const auto& [scale, cap] : {std::pair{1.0f, 30.0f}, {0.125f, 2.0f}, {0.5f, 0.0f}}) {
      for (const std::int64_t count : kCounts) {
        const Tensor x = host.normal(DType::f32, {count}, "x", 20);
        const Tensor dy = host.normal(dtype, {count}, "dy");
        const Tensor y = host.output(DType::f32, {count}), dx = host.output(dtype, {count});
        host.ops().cap_logits(host.stream(), x, scale, cap, y);
        host.ops().cap_logits_backward(host.stream(), y, dy, scale, cap, dx);
        Values capped = Host::read(x), slopes = Host::read(dy);
        for (std::size_t i = 0; i < capped.size(); ++i) {
          const double ratio = cap == 0 ? 0 : std::tanh(capped[i] * scale / cap);
          capped[i] = cap == 0 ? capped[i] * scale : cap * ratio;
          slopes[i] *= scale * (1 - ratio * ratio);
        }
        check_near(y, capped, tolerance_of(DType::f32));
        check_near(dx, slopes, tolerance_of(dtype));
        host.ops().cap_logits(host.stream(), x, scale, cap, x);
        BOOST_TEST(same_bits(x, y));
        host.ops().cap_logits_backward(host.stream(), y, dy, scale, cap, dy);
        BOOST_TEST(same_bits(dy, dx));
        if (dtype != DType::f32) continue;
        host.ops().cap_logits_backward(host.stream(), y, host.normal(dtype, {count}, "dy"), scale,
                                       cap, y);
        BOOST_TEST(same_bits(y, dx));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(small_logits_keep_their_digits_and_huge_ones_reach_the_cap) {
  Host host(1);
  const Values at{1e-30, -1e-4, 0.37, -3e38, 3e38, std::numeric_limits<double>::infinity()};
  const Tensor x = host.of(DType::f32, {6}, at), y = host.output(DType::f32, {6});
  host.ops().cap_logits(host.stream(), x, 1, 30, y);
  const Values seen = Host::read(x), got = Host::read(y);
  for (std::size_t i = 0; i < 3; ++i)
    BOOST_TEST(got[i] == 30 * std::tanh(seen[i] / 30), boost::test_tools::tolerance(1e-6));
  BOOST_TEST(got[3] == -30);
  BOOST_TEST(got[4] == 30);
  BOOST_TEST(got[5] == 30);
}

BOOST_AUTO_TEST_CASE(a_nan_is_not_hidden) {
  for_each_setup([](DType dtype, Host& host) {
    const Tensor x = host.of(dtype, {19}, Values(19, kNan)), y = host.zeros(dtype, {19});
    const auto all_are_nan = [](const Tensor& of) {
      for (const double value : Host::read(of)) BOOST_TEST(std::isnan(value));
    };
    host.ops().scale(host.stream(), x, 0, y);
    all_are_nan(y);
    host.ops().add_scaled(host.stream(), x, 0, host.zeros(dtype, {19}), y);
    all_are_nan(y);
    const Tensor logits = host.of(DType::f32, {19}, Values(19, kNan));
    host.ops().cap_logits(host.stream(), logits, 1, 30, logits);
    all_are_nan(logits);
    host.ops().cap_logits_backward(host.stream(), logits, host.zeros(dtype, {19}), 1, 30, y);
    all_are_nan(y);
  });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
