#include <limits>

#include "tests/support/reference_family_ops.h"
#include "tests/tensor/host.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(head_norm_test)

namespace {

constexpr float kEps = 1e-5f;

/// Rows of heads among other columns.
struct Case {
  std::int64_t rows = 1, columns = 0;
  HeadColumns heads;
  float plus = 0;
};
const std::vector<Case> kCases{
    {1, 4, {0, 1, 4}},
    {5, 40, {8, 2, 16}, 1},     // aligned to 16 bytes
    {70, 37, {3, 4, 7}, 1},     // not
    {130, 64 * 4, {0, 3, 64}},  // the queries of query, key and value heads
    {33, 128 * 3, {128, 1, 128}, 1},
    {9, 2200, {100, 1, 2000}},  // a whole width
    {3, 4500, {0, 1, 4481}, 1},
};

reference::Heads columns_of(const Case& of) {
  const auto index = [](std::int64_t x) { return static_cast<std::size_t>(x); };
  return {index(of.columns), index(of.heads.first), index(of.heads.heads), index(of.heads.dim)};
}

Values heads_of(const Values& x, const Case& of) {
  return reference::heads_of(x, columns_of(of));
}

/// x with its heads replaced.
Values with_heads(Values x, const Values& heads, const Case& of) {
  reference::put_heads(heads, columns_of(of), x);
  return x;
}

template <typename Body>
void for_each_case(const Body& body) {
  for_each_setup([&](DType dtype, Host& host) {
    for (const Case& of : kCases)
      BOOST_TEST_CONTEXT(of.rows << " rows of " << of.columns << ", " << of.heads.heads
                                 << " heads of " << of.heads.dim)
    body(dtype, host, of);
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(agrees_with_the_reference_and_leaves_other_columns) {
  for_each_case([](DType dtype, Host& host, const Case& of) {
    const Shape shape{of.rows, of.columns};
    const Tensor x = host.normal(dtype, shape, "x", 3);
    const Tensor w = host.normal(DType::f32, {of.heads.dim}, "w");
    const Tensor y = host.normal(dtype, shape, "others");
    const Values others = Host::read(y), heads = heads_of(Host::read(x), of);
    host.ops().head_norm(host.stream(), x, of.heads, w, kEps, of.plus, y);
    check_near(y, with_heads(others, reference::rms_norm(heads, Host::read(w), kEps, of.plus), of),
               tolerance_of(dtype));
    const Values kept = Host::read(y);
    BOOST_TEST((with_heads(kept, heads, of) == with_heads(others, heads, of)));

    const Tensor dy = host.normal(dtype, shape, "dy"), dx = host.normal(dtype, shape, "others");
    const Tensor dw = host.output(DType::f32, {of.heads.dim});
    host.ops().head_norm_backward(host.stream(), dy, x, of.heads, w, kEps, of.plus, dx, dw);
    const auto expected = reference::rms_norm_backward(heads_of(Host::read(dy), of), heads,
                                                       Host::read(w), kEps, of.plus);
    check_near(dx, with_heads(others, expected.dx, of), tolerance_of(dtype));
    check_near(dw, expected.dw, 5 * tolerance_of(DType::f32));
    BOOST_TEST((with_heads(Host::read(dx), heads, of) == with_heads(others, heads, of)));
  });
}

BOOST_AUTO_TEST_CASE(works_in_place) {
  for_each_case([](DType dtype, Host& host, const Case& of) {
    const Shape shape{of.rows, of.columns};
    const Tensor x = host.normal(dtype, shape, "x"), dy = host.normal(dtype, shape, "dy");
    const Tensor w = host.normal(DType::f32, {of.heads.dim}, "w");
    const Tensor y = host.normal(dtype, shape, "x"), dx = host.normal(dtype, shape, "dy");
    const Tensor dw = host.output(DType::f32, {of.heads.dim});
    const Tensor dw_again = host.output(DType::f32, {of.heads.dim});
    host.ops().head_norm(host.stream(), x, of.heads, w, kEps, of.plus, y);
    host.ops().head_norm_backward(host.stream(), dy, x, of.heads, w, kEps, of.plus, dx, dw);
    host.ops().head_norm_backward(host.stream(), dy, x, of.heads, w, kEps, of.plus, dy, dw_again);
    host.ops().head_norm(host.stream(), x, of.heads, w, kEps, of.plus, x);
    BOOST_TEST(same_bits(x, y));
    BOOST_TEST(same_bits(dy, dx));
    BOOST_TEST(same_bits(dw, dw_again));
  });
}

BOOST_AUTO_TEST_CASE(a_width_that_shards_divide_is_normed_by_their_sums) {
  for_each_setup([](DType dtype, Host& host) {
    const std::int64_t rows = 21, width = 96, part = width / 2;
    const Tensor x = host.normal(dtype, {rows, width}, "x", 3);
    const Tensor dy = host.normal(dtype, {rows, width}, "dy");
    const Tensor w = host.normal(DType::f32, {width}, "w");
    const auto dw_of = [](const Tensor& all, std::int64_t shard, std::int64_t count) {
      return Tensor{all.as<float>() + shard * count, DType::f32, {count}};
    };
    // Both shards' columns lie in one tensor here; each is computed as on a shard of its own.
    const Tensor sums[2] = {host.output(DType::f32, {rows}), host.output(DType::f32, {rows})};
    const Tensor dots[2] = {host.output(DType::f32, {rows}), host.output(DType::f32, {rows})};
    for (std::int64_t shard = 0; shard < 2; ++shard) {
      const HeadColumns own{shard * part, 1, part};
      host.ops().head_squares(host.stream(), x, own, sums[shard]);
      host.ops().head_dots(host.stream(), dy, x, own, dw_of(w, shard, part), 1, dots[shard]);
    }
    host.ops().accumulate(host.stream(), sums[1], sums[0]);
    host.ops().accumulate(host.stream(), dots[1], dots[0]);
    const Tensor y = host.output(dtype, {rows, width}), dx = host.output(dtype, {rows, width});
    const Tensor dw = host.output(DType::f32, {width});
    for (std::int64_t shard = 0; shard < 2; ++shard) {
      const HeadColumns own{shard * part, 1, part};
      const Tensor weight = dw_of(w, shard, part);
      host.ops().head_norm(host.stream(), x, own, weight, kEps, 1, y, sums[0], width);
      host.ops().head_norm_backward(host.stream(), dy, x, own, weight, kEps, 1, dx,
                                    dw_of(dw, shard, part), sums[0], dots[0], width);
    }
    check_near(y, reference::rms_norm(Host::read(x), Host::read(w), kEps, 1), tolerance_of(dtype));
    const auto expected =
        reference::rms_norm_backward(Host::read(dy), Host::read(x), Host::read(w), kEps, 1);
    check_near(dx, expected.dx, tolerance_of(dtype));
    check_near(dw, expected.dw, 5 * tolerance_of(DType::f32));
  });
}

BOOST_AUTO_TEST_CASE(any_number_of_threads_gives_the_same_bits) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Host one(1), three(3);
    const auto run = [&](Host& host) {
      const Tensor x = host.normal(dtype, {300, 64}, "x"), dy = host.normal(dtype, {300, 64}, "dy");
      const Tensor w = host.normal(DType::f32, {16}, "w"), dw = host.output(DType::f32, {16});
      host.ops().head_norm_backward(host.stream(), dy, x, {16, 3, 16}, w, kEps, 0, dy, dw);
      host.ops().head_norm(host.stream(), x, {16, 3, 16}, w, kEps, 0, x);
      return std::array{x, dy, dw};
    };
    const auto a = run(one), b = run(three);
    for (std::size_t i = 0; i < a.size(); ++i) BOOST_TEST(same_bits(a[i], b[i]));
  }
}

BOOST_AUTO_TEST_CASE(a_nan_is_not_hidden_and_stays_in_its_head) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::size_t at : {16u, 31u, 47u}) {
      Values values(2 * 64, 0.5);
      values[at] = std::numeric_limits<double>::quiet_NaN();
      const Tensor x = host.of(dtype, {2, 64}, values), y = host.zeros(dtype, {2, 64});
      const Tensor w = host.normal(DType::f32, {16}, "w"), dw = host.output(DType::f32, {16});
      host.ops().head_norm(host.stream(), x, {16, 2, 16}, w, kEps, 0, y);
      const Values got = Host::read(y);
      for (std::size_t i = 0; i < got.size(); ++i)
        BOOST_TEST(std::isnan(got[i]) == (i / 16 == at / 16), "element " << i);
      host.ops().head_norm_backward(host.stream(), x, y, {16, 2, 16}, w, kEps, 0, y, dw);
      BOOST_TEST(std::isnan(Host::read(dw)[at % 16]));
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
