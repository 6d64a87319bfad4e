#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>

#include "tensor/device/linear.h"
#include "tests/gpu/needs_gpu.h"
#include "tests/support/reference_ops.h"
#include "tests/tensor/host.h"

// Tests matrix products of a GPU against double precision, on inputs that are new each time.

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(products_test)

namespace {

/// The norm of the difference over the norm of what is expected.
double relative_error(const Values& got, const Values& expected) {
  BOOST_REQUIRE_EQUAL(got.size(), expected.size());
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += (got[i] - expected[i]) * (got[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

struct Precision {
  DType dtype;
  bool tf32;
  double bound;
};
constexpr Precision kPrecisions[] = {
    {DType::bf16, false, 1e-2}, {DType::f32, true, 1e-3}, {DType::f32, false, 1e-5}};

void check_products(const Precision& precision, std::int64_t rows, std::int64_t in,
                    std::int64_t out, const std::string& seed) {
  Host host(make_device({.kind = DeviceKind::cuda, .tf32 = precision.tf32}));
  const DType dtype = precision.dtype;
  const auto linear = host.device().make_linear(
      {.rows = rows, .in = in, .out = out, .dtype = dtype, .output_dtype = dtype});
  host.give_scratch(*linear);
  const Tensor x = host.normal(dtype, {rows, in}, "x" + seed);
  const Tensor w = host.normal(DType::f32, {out, in}, "w" + seed);
  const Tensor dy = host.normal(dtype, {rows, out}, "dy" + seed);
  const Tensor packed =
      host.output(DType::bf16, {static_cast<std::int64_t>((linear->packed_bytes() + 1) / 2)});
  const Tensor y = host.output(dtype, {rows, out}), dx = host.output(dtype, {rows, in});
  const Tensor dw = host.output(DType::f32, {out, in});
  linear->pack(host.stream(), w, packed.data);
  linear->forward(host.stream(), x, packed.data, y);
  linear->input_gradient(host.stream(), dy, packed.data, dx);
  linear->weight_gradient(host.stream(), dy, x, dw, Gradient::first);
  linear->weight_gradient(host.stream(), dy, x, dw, Gradient::added);
  const auto t = static_cast<std::size_t>(rows), i = static_cast<std::size_t>(in),
             o = static_cast<std::size_t>(out);
  BOOST_TEST(relative_error(Host::read(y), reference::linear(Host::read(x), Host::read(w), t, i,
                                                             o)) <= precision.bound);
  auto [expected_dx, expected_dw] =
      reference::linear_backward(Host::read(dy), Host::read(x), Host::read(w), t, i, o);
  for (double& element : expected_dw) element *= 2;
  BOOST_TEST(relative_error(Host::read(dx), expected_dx) <= precision.bound);
  BOOST_TEST(relative_error(Host::read(dw), expected_dw) <= precision.bound);
}

}  // namespace

BOOST_AUTO_TEST_CASE(products_are_as_exact_as_their_type) {
  const std::string seed = std::to_string(std::random_device{}());
  for (const Precision& precision : kPrecisions)
    for (const auto& [rows, in, out] :
         {std::array<std::int64_t, 3>{256, 384, 512}, {128, 1024, 40}, {77, 65, 33}, {1, 64, 256}})
      BOOST_TEST_CONTEXT(name_of(precision.dtype)
                         << (precision.tf32 ? " by tf32" : "") << ", " << rows << " x " << in
                         << " x " << out << ", seed " << seed)
  check_products(precision, rows, in, out, seed);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
