#include "tensor/device/grouped_linear.h"

#include <numeric>

#include "tensor/device/looped_linear.h"
#include "tensor/errors/error.h"
#include "tests/support/async_device.h"
#include "tests/tensor/host.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(grouped_linear_test)

namespace {

using Counts = std::vector<std::int64_t>;  // of rows, by group

/// What is computed, and by what.
using Make = std::function<std::unique_ptr<GroupedLinear>(Device&, const GroupedLinearShape&)>;

std::unique_ptr<GroupedLinear> of_device(Device& device, const GroupedLinearShape& shape) {
  return device.make_grouped_linear(shape);
}
std::unique_ptr<GroupedLinear> looped(Device& device, const GroupedLinearShape& shape) {
  return std::make_unique<LoopedLinear>(device, shape);
}

Tensor offsets_of(Host& host, const Counts& counts) {
  std::vector<std::int32_t> offsets{0};
  for (const std::int64_t count : counts)
    offsets.push_back(offsets.back() + static_cast<std::int32_t>(count));
  return host.ids(offsets);
}

std::int64_t rows_of(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

struct Run {
  Tensor x, w, dy, y, dx, dw;
};

/// Runs all products: a first weight gradient over whatever is there, then one that is added.
Run run(Host& host, const Make& make, const GroupedLinearShape& shape, const Counts& counts) {
  const LinearShape& s = shape.each;
  const std::int64_t rows = rows_of(counts);
  const auto linear = make(host.device(), shape);
  host.give_scratch(*linear);
  Run r{host.normal(s.dtype, {rows, s.in}, "x"),
        host.normal(DType::f32, {shape.groups * s.out, s.in}, "w"),
        host.normal(s.dtype, {rows, s.out}, "dy"),
        host.output(s.output_dtype, {rows, s.out}),
        host.output(s.dtype, {rows, s.in}),
        host.output(DType::f32, {shape.groups * s.out, s.in})};
  const Tensor offsets = offsets_of(host, counts);
  const Buffer packed = host.device().allocate(linear->packed_bytes(), MemoryKind::device);
  linear->pack(host.stream(), r.w, packed.data());
  linear->forward(host.stream(), r.x, offsets, packed.data(), r.y);
  linear->input_gradient(host.stream(), r.dy, offsets, packed.data(), r.dx);
  linear->weight_gradient(host.stream(), r.dy, r.x, offsets, r.dw, Gradient::first);
  linear->weight_gradient(host.stream(), r.dy, r.x, offsets, r.dw, Gradient::added);
  host.stream().synchronize();
  return r;
}

Values part(const Values& x, std::int64_t first, std::int64_t count) {
  return {x.begin() + first, x.begin() + first + count};
}

void append(Values& to, const Values& more) {
  to.insert(to.end(), more.begin(), more.end());
}

void check_against_reference(Host& host, const Make& make, const GroupedLinearShape& shape,
                             const Counts& counts) {
  const Run r = run(host, make, shape, counts);
  const std::int64_t in = shape.each.in, out = shape.each.out;
  const Values x = Host::read(r.x), dy = Host::read(r.dy);
  Values w = Host::read(r.w), y, dx, dw;
  if (shape.each.dtype == DType::bf16)
    for (double& value : w) value = to_float(to_bfloat16(static_cast<float>(value)));
  std::int64_t row = 0;
  for (std::size_t group = 0; group < counts.size(); ++group) {
    const auto rows = static_cast<std::size_t>(counts[group]);
    const Values of_group = part(w, static_cast<std::int64_t>(group) * out * in, out * in);
    const Values own = part(x, row * in, counts[group] * in);
    append(y, reference::linear(own, of_group, rows, static_cast<std::size_t>(in),
                                static_cast<std::size_t>(out)));
    const auto gradient =
        reference::linear_backward(part(dy, row * out, counts[group] * out), own, of_group, rows,
                                   static_cast<std::size_t>(in), static_cast<std::size_t>(out));
    append(dx, gradient.dx);
    for (const double value : gradient.dw) dw.push_back(2 * value);
    row += counts[group];
  }
  check_near(r.y, y, tolerance_of(shape.each.output_dtype));
  check_near(r.dx, dx, tolerance_of(shape.each.dtype));
  check_near(r.dw, dw, tolerance_of(DType::f32));
}

/// All ways to compute grouped products, of both dtypes: the device's, and those of linear layers.
template <typename Body>
void for_each_product(const Body& body) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto with = [&](const char* name, std::unique_ptr<Device> device, const Make& make) {
      BOOST_TEST_CONTEXT(name << ", " << name_of(dtype)) {
        Host host(std::move(device));
        body(host, make, dtype);
      }
    };
    with("one thread or seed", make_test_device(1), of_device);
    with("three", make_test_device(3), of_device);
    with("looped", make_test_device(2), looped);
    with("asynchronous", std::make_unique<test::AsyncDevice>(3), of_device);
  }
}

BOOST_AUTO_TEST_CASE(every_group_multiplies_its_own_rows) {
  for_each_product([](Host& host, const Make& make, DType dtype) {
    struct Case {
      std::int64_t in, out;
      Counts counts;
    };
    for (const auto& [in, out, counts] :
         {Case{1, 1, {1}}, Case{5, 3, {0, 2, 7, 0, 1}},  // some without rows
          Case{24, 40, {0, 0, 130, 0}},                  // one has all
          Case{64, 32, {33, 97, 127, 3, 15, 31}},        // whose last blocks overlap
          Case{40, 257, {129, 20, 64}},  // more outputs than a thread takes at a time
          Case{16, 128, {300, 259, 255, 5}}}) {
      BOOST_TEST_CONTEXT("in " << in << " out " << out) {
        const std::int64_t rows = rows_of(counts);
        check_against_reference(
            host, make,
            {.groups = static_cast<std::int64_t>(counts.size()),
             .each =
                 {.rows = rows + 3, .in = in, .out = out, .dtype = dtype, .output_dtype = dtype}},
            counts);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_group_without_rows_has_a_gradient_of_zeros) {
  for_each_product([](Host& host, const Make& make, DType dtype) {
    const GroupedLinearShape shape{
        .groups = 3, .each = {.rows = 9, .in = 4, .out = 6, .dtype = dtype, .output_dtype = dtype}};
    const auto linear = make(host.device(), shape);
    host.give_scratch(*linear);
    const Tensor x = host.normal(dtype, {9, 4}, "x"), dy = host.normal(dtype, {9, 6}, "dy");
    const Tensor dw = host.output(DType::f32, {18, 4}), none = host.ids({0, 0, 0, 0});
    linear->weight_gradient(host.stream(), dy, x, none, dw, Gradient::first);
    BOOST_TEST(Host::read(dw) == Values(72, 0), boost::test_tools::per_element());
    linear->weight_gradient(host.stream(), dy, x, host.ids({0, 4, 4, 9}), dw, Gradient::added);
    const Values before = Host::read(dw);
    BOOST_TEST(part(before, 24, 24) == Values(24, 0), boost::test_tools::per_element());
    linear->weight_gradient(host.stream(), dy, x, none, dw, Gradient::added);
    BOOST_TEST((Host::read(dw) == before));
  });
}

BOOST_AUTO_TEST_CASE(rows_behind_the_last_group_are_left_alone) {
  for_each_product([](Host& host, const Make& make, DType dtype) {
    const std::int64_t rows = 150, used = 131;
    const GroupedLinearShape shape{
        .groups = 2,
        .each = {.rows = rows, .in = 16, .out = 24, .dtype = dtype, .output_dtype = dtype}};
    const auto linear = make(host.device(), shape);
    host.give_scratch(*linear);
    const Tensor x = host.output(dtype, {rows, 16}), dy = host.output(dtype, {rows, 24});
    const Tensor y = host.output(dtype, {rows, 24}), dx = host.output(dtype, {rows, 16});
    const Tensor dw = host.output(DType::f32, {48, 16});  // all are full of NaNs
    for (const Tensor& own : {x, dy}) {
      Tensor first = own;
      first.shape = Shape{used, own.shape[1]};
      Host::write(Values(static_cast<std::size_t>(first.num_elements()), 1), first);
    }
    const Tensor w = host.normal(DType::f32, {48, 16}, "w");
    const Tensor offsets = host.ids({0, 40, static_cast<std::int32_t>(used)});
    const Buffer packed = host.device().allocate(linear->packed_bytes(), MemoryKind::device);
    linear->pack(host.stream(), w, packed.data());
    linear->forward(host.stream(), x, offsets, packed.data(), y);
    linear->input_gradient(host.stream(), dy, offsets, packed.data(), dx);
    linear->weight_gradient(host.stream(), dy, x, offsets, dw, Gradient::first);
    for (const Tensor& result : {y, dx}) {
      const Values values = Host::read(result);
      for (std::int64_t i = 0; i < result.num_elements(); ++i)
        BOOST_TEST(std::isnan(values[static_cast<std::size_t>(i)]) ==
                   (i >= used * result.shape[1]));
    }
    const Values gradient = Host::read(dw);
    for (std::size_t i = 0; i < gradient.size(); ++i)
      BOOST_TEST(gradient[i] == (i < gradient.size() / 2 ? 40 : 91));
  });
}

BOOST_AUTO_TEST_CASE(any_number_of_threads_gives_the_same_bits) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const GroupedLinearShape shape{
        .groups = 5,
        .each = {.rows = 700, .in = 72, .out = 200, .dtype = dtype, .output_dtype = dtype}};
    const Counts counts{0, 401, 1, 33, 170};
    Host one(make_cpu_device(1)), two(make_cpu_device(2)), five(make_cpu_device(5));
    const Run first = run(one, of_device, shape, counts);
    for (Host* other : {&one, &two, &five}) {
      const Run again = run(*other, of_device, shape, counts);
      BOOST_TEST(same_bits(again.y, first.y));
      BOOST_TEST(same_bits(again.dx, first.dx));
      BOOST_TEST(same_bits(again.dw, first.dw));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_layer_without_gradients_packs_one_orientation) {
  GroupedLinearShape shape{.groups = 4, .each = {.rows = 8, .in = 32, .out = 48}};
  Host host(make_cpu_device(2));
  const std::size_t with_gradients = host.device().make_grouped_linear(shape)->packed_bytes();
  shape.each.gradients = false;
  const auto linear = host.device().make_grouped_linear(shape);
  BOOST_TEST(linear->packed_bytes() * 2 <= with_gradients + 64);
  BOOST_TEST(linear->scratch_bytes().backward == 0u);
}

BOOST_AUTO_TEST_CASE(shapes_without_a_meaning_are_refused) {
  Host host(make_cpu_device(1));
  const GroupedLinearShape none{.groups = 0, .each = {.rows = 8, .in = 4, .out = 4}};
  BOOST_CHECK_EXCEPTION(host.device().make_grouped_linear(none), Error, [](const Error& error) {
    return std::string_view(error.what()).find("of 0 groups") != std::string_view::npos;
  });
  const GroupedLinearShape empty{.groups = 2, .each = {.rows = 0, .in = 4, .out = 4}};
  BOOST_CHECK_THROW(host.device().make_grouped_linear(empty), Error);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
