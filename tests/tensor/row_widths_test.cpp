#include <utility>

#include "tests/support/reference_gpt2_ops.h"
#include "tests/tensor/host.h"

// Rows of all widths: within a thread's registers, beyond them, beyond the memory that a block of
// threads shares, and not aligned to vectors; and more rows than a grid takes at a time.

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(row_widths_test)

namespace {

constexpr float kEps = 1e-5f, kPlus = 1;

/// The first shape.num_elements() elements of x from the one after its first, so that they are not
/// aligned to more than one element.
Tensor shifted(const Tensor& x, Shape shape) {
  return {x.as<std::byte>() + size_of(x.dtype), x.dtype, shape};
}

/// Makes tensors that are aligned as the device's are, or to one element only.
struct Maker {
  Host& host;
  bool shift;

  Tensor like(const Tensor& values) const {
    const Values read = Host::read(values);
    if (!shift) return values;
    const Tensor x = shifted(host.output(values.dtype, {values.num_elements() + 1}), values.shape);
    Host::write(read, x);
    return x;
  }
  Tensor normal(DType dtype, Shape shape, std::string_view name) const {
    return like(host.normal(dtype, shape, name));
  }
  Tensor output(DType dtype, Shape shape) const { return like(host.output(dtype, shape)); }
};

void check_rms_norm(const Maker& make, DType dtype, std::int64_t rows, std::int64_t channels) {
  Host& host = make.host;
  const Shape shape{rows, channels};
  const Tensor x = make.normal(dtype, shape, "x"), w = make.normal(DType::f32, {channels}, "w");
  const Tensor y = make.output(dtype, shape), rstd = make.output(DType::f32, {rows});
  host.ops().rms_norm(host.stream(), x, w, kEps, kPlus, y, rstd);
  check_near(y, reference::rms_norm(Host::read(x), Host::read(w), kEps, kPlus),
             tolerance_of(dtype));
  const Tensor dy = make.normal(dtype, shape, "dy");
  const Values residual = Host::read(make.normal(dtype, shape, "residual"));
  auto expected =
      reference::rms_norm_backward(Host::read(dy), Host::read(x), Host::read(w), kEps, kPlus);
  for (std::size_t i = 0; i < residual.size(); ++i) expected.dx[i] += residual[i];
  const Tensor dx = make.output(dtype, shape), dw = make.output(DType::f32, {channels});
  Host::write(residual, dx);
  host.ops().rms_norm_backward(host.stream(), dy, x, w, kPlus, rstd, dx, dx, dw);
  check_near(dx, expected.dx, tolerance_of(dtype));
  check_near(dw, expected.dw, 5 * tolerance_of(DType::f32));
}

void check_layer_norm(const Maker& make, DType dtype, std::int64_t rows, std::int64_t channels) {
  Host& host = make.host;
  const Shape shape{rows, channels};
  const Tensor x = make.normal(dtype, shape, "x"), w = make.normal(DType::f32, {channels}, "w");
  const Tensor b = make.normal(DType::f32, {channels}, "b"), y = make.output(dtype, shape);
  const Tensor mean = make.output(DType::f32, {rows}), rstd = make.output(DType::f32, {rows});
  host.ops().layer_norm(host.stream(), x, w, b, kEps, y, mean, rstd);
  check_near(y, reference::layer_norm(Host::read(x), Host::read(w), Host::read(b), kEps),
             tolerance_of(dtype));
  const Tensor dy = make.normal(dtype, shape, "dy");
  const auto expected =
      reference::layer_norm_backward(Host::read(dy), Host::read(x), Host::read(w), kEps);
  const Tensor dw = make.output(DType::f32, {channels}), db = make.output(DType::f32, {channels});
  host.ops().layer_norm_backward(host.stream(), dy, x, w, mean, rstd, {}, dy, dw, db);
  check_near(dy, expected.dx, tolerance_of(dtype));
  check_near(dw, expected.dw, 5 * tolerance_of(DType::f32));
  check_near(db, expected.db, 5 * tolerance_of(DType::f32));
}

// 4096 float32 or 8192 bfloat16 columns are the most that a thread's registers keep.
BOOST_AUTO_TEST_CASE(norms_agree_with_the_reference_for_every_width) {
  for_each_setup([](DType dtype, Host& host) {
    const Maker make{host, false};
    const std::int64_t most = dtype == DType::f32 ? 4096 : 8192;
    for (const auto& [rows, channels] :
         {std::pair<std::int64_t, std::int64_t>{9, 264}, {5, 1032}, {2, most}, {2, most + 8}}) {
      BOOST_TEST_CONTEXT(rows << " rows, " << channels << " channels") {
        check_rms_norm(make, dtype, rows, channels);
        check_layer_norm(make, dtype, rows, channels);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(norms_take_more_rows_than_a_grid_has) {
  Host host(1);
  check_rms_norm({host, false}, DType::f32, 4300, 8);
  check_layer_norm({host, false}, DType::bf16, 4300, 8);
}

BOOST_AUTO_TEST_CASE(norms_and_column_sums_take_tensors_that_begin_anywhere) {
  for_each_setup([](DType dtype, Host& host) {
    const Maker make{host, true};
    for (const std::int64_t channels : {8, 77}) {
      check_rms_norm(make, dtype, 11, channels);
      check_layer_norm(make, dtype, 11, channels);
      const Tensor dy = make.normal(dtype, {11, channels}, "dy");
      const Tensor db = make.output(DType::f32, {channels});
      host.ops().bias_gradient(host.stream(), dy, db, Gradient::first);
      check_near(db, reference::bias_gradient(Host::read(dy), static_cast<std::size_t>(channels)),
                 tolerance_of(DType::f32));
    }
  });
}

void check_cross_entropy(Host& host, DType dtype, std::int64_t rows, std::int64_t vocabulary,
                         bool shift) {
  const Maker make{host, shift};
  const Tensor logits = make.normal(DType::f32, {rows, vocabulary}, "logits");
  const Values values = Host::read(logits);
  std::vector<std::int32_t> targets;
  for (std::int64_t t = 0; t < rows; ++t)
    targets.push_back(static_cast<std::int32_t>((t * 7919 + vocabulary - 1) % vocabulary));
  const auto expected =
      reference::cross_entropy(values, targets, static_cast<std::size_t>(vocabulary), 0.5);
  const bool in_place = dtype == DType::f32;
  const Tensor dlogits = in_place ? logits : make.output(dtype, {rows, vocabulary});
  const double alone = host.cross_entropy(logits, host.ids(targets), 0.5f);
  const double loss = host.cross_entropy(logits, host.ids(targets), 0.5f, dlogits);
  BOOST_TEST(loss == alone);
  BOOST_TEST(std::abs(loss - expected.loss) <= 2e-7 * expected.loss);
  check_near(dlogits, expected.dlogits, 3 * tolerance_of(dtype));
}

// 112 KiB of shared memory keep 28672 logits of a row; a row of 32003 begins at any element.
BOOST_AUTO_TEST_CASE(cross_entropy_agrees_with_the_reference_for_every_vocabulary) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t vocabulary : {28672, 32000, 32003}) {
      BOOST_TEST_CONTEXT("vocabulary " << vocabulary) {
        check_cross_entropy(host, dtype, 2, vocabulary, false);
      }
    }
    check_cross_entropy(host, dtype, 3, 132, true);
  });
}

BOOST_AUTO_TEST_CASE(cross_entropy_takes_more_rows_than_a_grid_has) {
  Host host(1);
  check_cross_entropy(host, DType::f32, 270, 8200, false);
}

// Logits of minus infinity are masked classes; a thread may have no other.
BOOST_AUTO_TEST_CASE(cross_entropy_takes_masked_classes) {
  for_each_setup([](DType dtype, Host& host) {
    Values values(3000, -std::numeric_limits<double>::infinity());
    values[5] = 2, values[2990] = 2;
    const Tensor logits = host.of(DType::f32, {1, 3000}, values);
    const Tensor dlogits = host.output(dtype, {1, 3000});
    const double loss = host.cross_entropy(logits, host.ids({5}), 1, dlogits);
    BOOST_TEST(std::abs(loss - std::log(2.0)) < 1e-7);
    const Values gradient = Host::read(dlogits);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      BOOST_TEST(std::abs(gradient[i] - (i == 5 ? -0.5 : i == 2990 ? 0.5 : 0)) < 1e-7);
    }
  });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
