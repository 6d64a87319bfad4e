#include "tensor/cuda/products/product_layout.h"

#include <array>
#include <boost/test/unit_test.hpp>
#include <random>
#include <vector>

#include "tensor/errors/error.h"
#include "tests/support/seed.h"

namespace troupe::tensor::cuda {

BOOST_AUTO_TEST_SUITE(product_layout_test)

namespace {

using Matrix = std::vector<double>;  // whole numbers, whose products and sums are exact

/// Every address that BLAS would read lies within the tensor, and no two elements share one.
double at(const Matrix& memory, const ColumnMajor& matrix, std::int64_t i, std::int64_t j) {
  BOOST_TEST_REQUIRE((i >= 0 && i < matrix.rows && j >= 0 && j < matrix.columns));
  BOOST_TEST_REQUIRE(matrix.ld >= matrix.rows);
  return memory.at(static_cast<std::size_t>(i + j * matrix.ld));
}

/// What BLAS does with a layout, word by word: D = op(A) op(B) + C.
Matrix multiply(const ProductLayout& p, const Matrix& a, const Matrix& b, const Matrix& c) {
  BOOST_TEST_REQUIRE((p.d.rows == p.m && p.d.columns == p.n));
  Matrix d = c;
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < p.k; ++l)
        sum += (p.transpose_a ? at(a, p.a, l, i) : at(a, p.a, i, l)) *
               (p.transpose_b ? at(b, p.b, j, l) : at(b, p.b, l, j));
      d.at(static_cast<std::size_t>(i + j * p.d.ld)) += sum;
    }
  }
  return d;
}

/// Row-major, without BLAS: out[i, j] += sum over l of left(i, l) * right(l, j).
template <typename Left, typename Right>
Matrix plain(std::int64_t m, std::int64_t n, std::int64_t k, Left&& left, Right&& right,
             Matrix out) {
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t l = 0; l < k; ++l)
        out[static_cast<std::size_t>(i * n + j)] += left(i, l) * right(l, j);
  return out;
}

BOOST_AUTO_TEST_CASE(a_layout_followed_literally_gives_the_product) {
  const std::uint64_t seed = test::fresh_seed();
  std::mt19937_64 random(seed);
  const auto size = [&] { return std::uniform_int_distribution<std::int64_t>(1, 9)(random); };
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    Matrix values(static_cast<std::size_t>(rows * columns));
    for (double& value : values) value = std::uniform_int_distribution<int>(-9, 9)(random);
    return values;
  };
  for (int round = 0; round < 100; ++round) {
    const std::int64_t T = size(), in = size(), out = size();
    BOOST_TEST_CONTEXT("seed " << seed << " round " << round << " rows " << T << " in " << in
                               << " out " << out) {
      const LinearShape shape{.rows = T, .in = in, .out = out};
      const Matrix x = matrix(T, in), w = matrix(out, in), dy = matrix(T, out);
      const std::array<const Matrix*, 3> operands{&x, &w, &dy};
      const auto element = [](const Matrix& values, std::int64_t columns) {
        return [&values, columns](std::int64_t i, std::int64_t j) {
          return values[static_cast<std::size_t>(i * columns + j)];
        };
      };
      const auto run = [&](ProductKind kind, const Matrix& c) {
        const ProductLayout p = product_layout(shape, kind);
        return multiply(p, *operands[static_cast<std::size_t>(p.a_is)],
                        *operands[static_cast<std::size_t>(p.b_is)], c);
      };
      const auto xs = element(x, in), ws = element(w, in), dys = element(dy, out);
      const auto turned = [](auto f) {
        return [f](std::int64_t i, std::int64_t j) { return f(j, i); };
      };
      const Matrix residual = matrix(T, out), zeros(static_cast<std::size_t>(T * in)),
                   dw = matrix(out, in);
      BOOST_TEST(
          (run(ProductKind::forward, residual) == plain(T, out, in, xs, turned(ws), residual)));
      BOOST_TEST((run(ProductKind::input_gradient, zeros) == plain(T, in, out, dys, ws, zeros)));
      BOOST_TEST((run(ProductKind::weight_gradient, dw) == plain(out, in, T, turned(dys), xs, dw)));
    }
  }
}

BOOST_AUTO_TEST_CASE(types_are_those_that_cublaslt_multiplies) {
  LinearShape shape{
      .rows = 4, .in = 8, .out = 16, .dtype = DType::bf16, .output_dtype = DType::f32};
  const auto types = [&](ProductKind kind) {
    const ProductLayout p = product_layout(shape, kind);
    return std::array{p.a.dtype, p.b.dtype, p.d.dtype};
  };
  using Types = std::array<DType, 3>;
  constexpr DType f = DType::f32, h = DType::bf16;
  BOOST_TEST((types(ProductKind::forward) == Types{h, h, f}));
  BOOST_TEST((types(ProductKind::input_gradient) == Types{h, h, h}));
  BOOST_TEST((types(ProductKind::weight_gradient) == Types{h, h, f}));
  shape.output_dtype = h;
  BOOST_TEST((types(ProductKind::forward) == Types{h, h, h}));
  shape.dtype = f;
  BOOST_CHECK_THROW(product_layout(shape, ProductKind::forward), Error);
  shape.output_dtype = f;
  BOOST_TEST((types(ProductKind::weight_gradient) == Types{f, f, f}));
  shape.in = 0;
  BOOST_CHECK_THROW(product_layout(shape, ProductKind::forward), Error);
}

BOOST_AUTO_TEST_CASE(the_alignment_is_that_of_a_row) {
  const auto alignment = [](DType dtype, std::int64_t columns) {
    return alignment_of({.dtype = dtype, .rows = columns, .columns = 3, .ld = columns});
  };
  BOOST_TEST(alignment(DType::bf16, 128) == 256u);
  BOOST_TEST(alignment(DType::bf16, 384) == 256u);
  BOOST_TEST(alignment(DType::bf16, 8) == 16u);
  BOOST_TEST(alignment(DType::bf16, 7) == 2u);
  BOOST_TEST(alignment(DType::f32, 65) == 4u);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor::cuda
