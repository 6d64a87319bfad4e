#include <limits>

#include "tests/support/reference_gpt2_ops.h"
#include "tests/tensor/host.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(layer_norm_test)

namespace {

constexpr float kEps = 1e-5f;

/// Everything that one forward and one backward of layer_norm give.
struct Run {
  Tensor x, w, b, y, mean, rstd, dy, residual, dx, dw, db;
};

Run run(Host& host, DType dtype, std::int64_t rows, std::int64_t channels) {
  const Shape shape{rows, channels};
  Run r{host.normal(dtype, shape, "x", 3),
        host.normal(DType::f32, {channels}, "w"),
        host.normal(DType::f32, {channels}, "b"),
        host.output(dtype, shape),
        host.output(DType::f32, {rows}),
        host.output(DType::f32, {rows}),
        host.normal(dtype, shape, "dy"),
        host.normal(dtype, shape, "residual"),
        host.output(dtype, shape),
        host.output(DType::f32, {channels}),
        host.output(DType::f32, {channels})};
  host.ops().layer_norm(host.stream(), r.x, r.w, r.b, kEps, r.y, r.mean, r.rstd);
  host.ops().layer_norm_backward(host.stream(), r.dy, r.x, r.w, r.mean, r.rstd, r.residual, r.dx,
                                 r.dw, r.db);
  return r;
}

BOOST_AUTO_TEST_CASE(layer_norm_agrees_with_the_reference) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t rows : {1, 5, 63, 130, 300}) {
      for (const std::int64_t channels : {7, 16, 96, 133}) {
        BOOST_TEST_CONTEXT(rows << " rows, " << channels << " channels") {
          const Run r = run(host, dtype, rows, channels);
          const Values x = Host::read(r.x), w = Host::read(r.w);
          check_near(r.y, reference::layer_norm(x, w, Host::read(r.b), kEps), tolerance_of(dtype));
          reference::LayerNormGradient expected =
              reference::layer_norm_backward(Host::read(r.dy), x, w, kEps);
          check_near(r.dw, expected.dw, tolerance_of(DType::f32));
          check_near(r.db, expected.db, tolerance_of(DType::f32));
          const Values added = Host::read(r.residual);
          for (std::size_t i = 0; i < expected.dx.size(); ++i) expected.dx[i] += added[i];
          check_near(r.dx, expected.dx, tolerance_of(dtype));
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(layer_norm_gives_the_same_bits_for_any_number_of_threads) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t rows : {1, 9, 130, 300}) {
      Host one(1);
      const Run expected = run(one, dtype, rows, 133);
      for (const int threads : {2, 3, 5}) {
        Host several(threads);
        const Run r = run(several, dtype, rows, 133);
        BOOST_TEST(same_bits(r.y, expected.y));
        BOOST_TEST(same_bits(r.dx, expected.dx));
        BOOST_TEST(same_bits(r.dw, expected.dw));
        BOOST_TEST(same_bits(r.db, expected.db));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(layer_norm_backward_works_in_place) {
  for_each_setup([](DType dtype, Host& host) {
    const Run r = run(host, dtype, 130, 96);
    const auto backward = [&](const Tensor& residual, const Tensor& dx) {
      host.ops().layer_norm_backward(host.stream(), r.dy, r.x, r.w, r.mean, r.rstd, residual, dx,
                                     r.dw, r.db);
    };
    backward(r.residual, r.residual);
    BOOST_TEST(same_bits(r.residual, r.dx));
    backward({}, r.dx);
    backward({}, r.dy);
    BOOST_TEST(same_bits(r.dy, r.dx));
  });
}

// The variance of such rows is lost if it is computed as a difference of two large numbers.
BOOST_AUTO_TEST_CASE(layer_norm_keeps_its_digits_far_from_zero) {
  Host host(1);
  const Tensor x = host.normal(DType::f32, {3, 96}, "x");
  Values values = Host::read(x);
  for (double& value : values) value = static_cast<float>(value + 1000);
  Host::write(values, x);
  const Tensor w = host.normal(DType::f32, {96}, "w"), b = host.normal(DType::f32, {96}, "b");
  const Tensor y = host.output(DType::f32, {3, 96});
  const Tensor mean = host.output(DType::f32, {3}), rstd = host.output(DType::f32, {3});
  host.ops().layer_norm(host.stream(), x, w, b, kEps, y, mean, rstd);
  // The mean, a float32 near 1000, is off by up to 6e-5.
  check_near(y, reference::layer_norm(values, Host::read(w), Host::read(b), kEps), 1e-4);
}

BOOST_AUTO_TEST_CASE(layer_norm_does_not_hide_a_nan) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::size_t at : {0u, 15u, 16u, 39u}) {  // in a full vector and in a part of one
      const Run r = run(host, dtype, 2, 40);
      Values values = Host::read(r.x);
      values[at] = std::numeric_limits<double>::quiet_NaN();
      Host::write(values, r.x);
      host.ops().layer_norm(host.stream(), r.x, r.w, r.b, kEps, r.y, r.mean, r.rstd);
      host.ops().layer_norm_backward(host.stream(), r.dy, r.x, r.w, r.mean, r.rstd, {}, r.dx, r.dw,
                                     r.db);
      for (const Tensor& reached : {r.y, r.dx}) {
        BOOST_TEST(std::isnan(Host::read(reached)[0]));
        BOOST_TEST(!std::isnan(Host::read(reached)[40]));
      }
      BOOST_TEST(std::isnan(Host::read(r.dw)[at]));
    }
  });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
