#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>

#include "tensor/errors/error.h"
#include "tests/tensor/host.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(linear_test)

namespace {

struct Run {
  Tensor x, w, dy, residual, y, y_residual, dx, dw;
};

/// Runs all products of a layer, the weight gradient twice so that it accumulates.
Run run(Host& host, const LinearShape& s) {
  const auto linear = host.device().make_linear(s);
  host.give_scratch(*linear);
  Run r{host.normal(s.dtype, {s.rows, s.in}, "x"),
        host.normal(DType::f32, {s.out, s.in}, "w"),
        host.normal(s.dtype, {s.rows, s.out}, "dy"),
        host.normal(s.output_dtype, {s.rows, s.out}, "residual"),
        host.zeros(s.output_dtype, {s.rows, s.out}),
        host.zeros(s.output_dtype, {s.rows, s.out}),
        host.zeros(s.dtype, {s.rows, s.in}),
        host.normal(DType::f32, {s.out, s.in}, "dw")};
  const Buffer packed = host.device().allocate(linear->packed_bytes(), MemoryKind::device);
  linear->pack(host.stream(), r.w, packed.data());
  linear->forward(host.stream(), r.x, packed.data(), r.y);
  linear->forward(host.stream(), r.x, packed.data(), r.y_residual, r.residual);
  linear->input_gradient(host.stream(), r.dy, packed.data(), r.dx);
  linear->weight_gradient(host.stream(), r.dy, r.x, r.dw, Gradient::added);
  linear->weight_gradient(host.stream(), r.dy, r.x, r.dw, Gradient::added);
  return r;
}

Values rounded(Values values, DType dtype) {
  if (dtype == DType::f32) return values;
  for (double& x : values) x = to_float(to_bfloat16(static_cast<float>(x)));
  return values;
}

void check_against_reference(Host& host, const LinearShape& s) {
  BOOST_TEST_CONTEXT("rows " << s.rows << " in " << s.in << " out " << s.out << " to "
                             << name_of(s.output_dtype)) {
    const Run r = run(host, s);
    const auto rows = static_cast<std::size_t>(s.rows), in = static_cast<std::size_t>(s.in),
               out = static_cast<std::size_t>(s.out);
    const Values x = Host::read(r.x), dy = Host::read(r.dy);
    const Values w = rounded(Host::read(r.w), s.dtype);
    Values y = reference::linear(x, w, rows, in, out);
    const double tolerance = tolerance_of(s.output_dtype);
    check_near(r.y, y, tolerance);
    const Values residual = Host::read(r.residual);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += residual[i];
    check_near(r.y_residual, y, tolerance);
    const reference::LinearGradient g = reference::linear_backward(dy, x, w, rows, in, out);
    check_near(r.dx, g.dx, tolerance_of(s.dtype));
    Host before(1);
    Values dw = Host::read(before.normal(DType::f32, {s.out, s.in}, "dw"));
    for (std::size_t i = 0; i < dw.size(); ++i) dw[i] += 2 * g.dw[i];
    check_near(r.dw, dw, tolerance_of(DType::f32));
  }
}

BOOST_AUTO_TEST_CASE(the_first_gradient_is_written_over_whatever_was_there) {
  Host host(2);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const LinearShape shape{.rows = 96, .in = 40, .out = 72, .dtype = dtype};
    const auto linear = host.device().make_linear(shape);
    host.give_scratch(*linear);
    const Tensor x = host.normal(dtype, {shape.rows, shape.in}, "x");
    const Tensor dy = host.normal(dtype, {shape.rows, shape.out}, "dy");
    const Tensor added = host.zeros(DType::f32, {shape.out, shape.in});
    const Tensor first = host.output(DType::f32, {shape.out, shape.in});
    linear->weight_gradient(host.stream(), dy, x, added, Gradient::added);
    linear->weight_gradient(host.stream(), dy, x, first, Gradient::first);
    BOOST_TEST((Host::read(first) == Host::read(added)));  // 0 + -0 is 0
  }
}

BOOST_AUTO_TEST_CASE(products_agree_with_the_reference) {
  for_each_setup([](DType dtype, Host& host) {
    for (const auto& [rows, in, out] : {std::tuple{1, 1, 1},
                                        {5, 3, 7},
                                        {63, 96, 40},
                                        {64, 64, 64},
                                        {130, 65, 33},
                                        {33, 129, 257}}) {
      const LinearShape shape{
          .rows = rows, .in = in, .out = out, .dtype = dtype, .output_dtype = dtype};
      check_against_reference(host, shape);
    }
  });
}

BOOST_AUTO_TEST_CASE(logits_are_float32_from_bfloat16_inputs) {
  Host host(2);
  check_against_reference(
      host, {.rows = 40, .in = 64, .out = 100, .dtype = DType::bf16, .output_dtype = DType::f32});
}

BOOST_AUTO_TEST_CASE(gives_the_same_bits_twice) {
  for_each_setup([](DType dtype, Host& host) {
    const LinearShape shape{
        .rows = 256, .in = 96, .out = 160, .dtype = dtype, .output_dtype = dtype};
    const Run first = run(host, shape), second = run(host, shape);
    BOOST_TEST(same_bits(first.y, second.y));
    BOOST_TEST(same_bits(first.y_residual, second.y_residual));
    BOOST_TEST(same_bits(first.dx, second.dx));
    BOOST_TEST(same_bits(first.dw, second.dw));
  });
}

BOOST_AUTO_TEST_CASE(calls_may_have_fewer_rows_in_steps) {
  for_each_setup([](DType dtype, Host& host) {
    LinearShape whole{.rows = 48, .in = 40, .out = 72, .dtype = dtype, .output_dtype = dtype};
    whole.row_step = 12;
    const auto linear = host.device().make_linear(whole);
    host.give_scratch(*linear);
    const Tensor w = host.normal(DType::f32, {72, 40}, "w");
    const Buffer packed = host.device().allocate(linear->packed_bytes(), MemoryKind::device);
    linear->pack(host.stream(), w, packed.data());
    const Values rounded_w = rounded(Host::read(w), dtype);
    for (const std::int64_t rows : {12, 48, 24, 36}) {
      const auto count = static_cast<std::size_t>(rows);
      const Tensor x = host.normal(dtype, {rows, 40}, "x"),
                   dy = host.normal(dtype, {rows, 72}, "dy");
      const Tensor y = host.output(dtype, {rows, 72}), dx = host.output(dtype, {rows, 40});
      const Tensor dw = host.output(DType::f32, {72, 40});
      linear->forward(host.stream(), x, packed.data(), y);
      linear->input_gradient(host.stream(), dy, packed.data(), dx);
      linear->weight_gradient(host.stream(), dy, x, dw, Gradient::first);
      check_near(y, reference::linear(Host::read(x), rounded_w, count, 40, 72),
                 tolerance_of(dtype));
      const auto g =
          reference::linear_backward(Host::read(dy), Host::read(x), rounded_w, count, 40, 72);
      check_near(dx, g.dx, tolerance_of(dtype));
      check_near(dw, g.dw, tolerance_of(DType::f32));
    }
  });
}

BOOST_AUTO_TEST_CASE(one_object_serves_several_packed_weights) {
  Host host(1);
  const LinearShape shape{.rows = 4, .in = 16, .out = 32};
  const auto linear = host.device().make_linear(shape);
  host.give_scratch(*linear);
  const Tensor x = host.normal(DType::f32, {4, 16}, "x");
  std::vector<Buffer> packed;
  std::vector<Tensor> weights;
  for (const auto* name : {"first", "second"}) {
    weights.push_back(host.normal(DType::f32, {32, 16}, name));
    packed.push_back(host.device().allocate(linear->packed_bytes(), MemoryKind::device));
    linear->pack(host.stream(), weights.back(), packed.back().data());
  }
  for (const std::size_t i : {1u, 0u, 1u}) {
    const Tensor y = host.zeros(DType::f32, {4, 32});
    linear->forward(host.stream(), x, packed[i].data(), y);
    check_near(y, reference::linear(Host::read(x), Host::read(weights[i]), 4, 16, 32), 2e-6);
  }
}

// As divided weights are used: the next forward's are packed while a backward runs.
BOOST_AUTO_TEST_CASE(a_weight_may_be_packed_beside_products_of_another) {
  Host host(1);
  const LinearShape shape{.rows = 4, .in = 16, .out = 32};
  const auto linear = host.device().make_linear(shape);
  host.give_scratch(*linear);
  const auto packed_of = [&](const char* name) {
    Buffer packed = host.device().allocate(linear->packed_bytes(), MemoryKind::device);
    linear->pack(host.stream(), host.normal(DType::f32, {32, 16}, name), packed.data());
    return packed;
  };
  const Buffer first = packed_of("first"), second = packed_of("second");
  const Tensor dy = host.normal(DType::f32, {4, 32}, "dy"),
               w = host.normal(DType::f32, {32, 16}, "w");
  const Tensor want = host.zeros(DType::f32, {4, 16}), dx = host.zeros(DType::f32, {4, 16});
  linear->input_gradient(host.stream(), dy, first.data(), want);
  host.stream().synchronize();
  std::atomic<bool> is_done{false};
  std::thread packer([&] {
    const auto stream = host.device().make_stream();
    while (!is_done) {
      linear->pack(*stream, w, second.data());
      stream->synchronize();
    }
  });
  bool all_same = true;
  for (int i = 0; i < 10000; ++i) {
    linear->input_gradient(host.stream(), dy, first.data(), dx);
    host.stream().synchronize();
    all_same = all_same && same_bits(want, dx);
  }
  is_done = true;
  packer.join();
  BOOST_TEST(all_same);
}

// As inference uses it: whole prompts and single tokens with one packed weight, which holds no more
// than forwards need.
BOOST_AUTO_TEST_CASE(a_layer_without_gradients_has_two_numbers_of_rows) {
  for_each_setup([](DType dtype, Host& host) {
    LinearShape shape{.rows = 70, .in = 48, .out = 80, .dtype = dtype, .output_dtype = dtype};
    const std::size_t with_gradients = host.device().make_linear(shape)->packed_bytes();
    shape.other_rows = {3};
    shape.gradients = false;
    const auto linear = host.device().make_linear(shape);
    host.give_scratch(*linear);
    BOOST_TEST(linear->packed_bytes() <= with_gradients);
    const Tensor w = host.normal(DType::f32, {80, 48}, "w");
    const Buffer packed = host.device().allocate(linear->packed_bytes(), MemoryKind::device);
    linear->pack(host.stream(), w, packed.data());
    for (const std::int64_t rows : {3, 70, 3}) {
      const Tensor x = host.normal(dtype, {rows, 48}, "x"), y = host.output(dtype, {rows, 80});
      const Tensor residual = host.normal(dtype, {rows, 80}, "residual");
      Values expected = reference::linear(Host::read(x), rounded(Host::read(w), dtype),
                                          static_cast<std::size_t>(rows), 48, 80);
      linear->forward(host.stream(), x, packed.data(), y);
      check_near(y, expected, tolerance_of(dtype));
      const Values added = Host::read(residual);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += added[i];
      linear->forward(host.stream(), x, packed.data(), y, residual);
      check_near(y, expected, tolerance_of(dtype));
    }
  });
}

BOOST_AUTO_TEST_CASE(devices_of_different_width_do_not_disturb_each_other) {
  const LinearShape shape{.rows = 256, .in = 96, .out = 160};
  Host two(2);
  const Run alone = run(two, shape);
  Host one(1);
  const Run narrow = run(one, shape), wide = run(two, shape);
  BOOST_TEST(same_bits(alone.y, wide.y));
  BOOST_TEST(same_bits(alone.dw, wide.dw));
  check_near(narrow.dw, Host::read(wide.dw), 2e-6);
}

BOOST_AUTO_TEST_CASE(a_nan_in_a_factor_is_not_hidden) {
  for_each_setup([](DType dtype, Host& host) {
    const auto linear = host.device().make_linear(
        {.rows = 8, .in = 16, .out = 16, .dtype = dtype, .output_dtype = dtype});
    host.give_scratch(*linear);
    const Tensor x = host.zeros(dtype, {8, 16}), w = host.zeros(DType::f32, {16, 16});
    Host::write({std::numeric_limits<double>::quiet_NaN()}, x);
    const Buffer packed = host.device().allocate(linear->packed_bytes(), MemoryKind::device);
    linear->pack(host.stream(), w, packed.data());
    const Tensor y = host.zeros(dtype, {8, 16}), dw = host.zeros(DType::f32, {16, 16});
    linear->forward(host.stream(), x, packed.data(), y);
    linear->weight_gradient(host.stream(), x, x, dw, Gradient::added);
    BOOST_TEST(std::isnan(Host::read(y)[5]));
    BOOST_TEST(std::isnan(Host::read(dw)[0]));
  });
}

BOOST_AUTO_TEST_CASE(refuses_layers_that_have_no_meaning) {
  Host host(1);
  for (const LinearShape& shape :
       {LinearShape{.rows = 0, .in = 4, .out = 4}, LinearShape{.rows = 4, .in = -1, .out = 4},
        LinearShape{.rows = 4, .in = 4, .out = 4, .dtype = DType::i32}}) {
    BOOST_CHECK_EXCEPTION(host.device().make_linear(shape), Error,
                          [](const Error& error) { return error.kind() == ErrorKind::manifest; });
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
