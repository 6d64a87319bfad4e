#include "tensor/cpu/products/multiply.h"

#include <algorithm>
#include <bit>

#include "tensor/errors/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/products/multiply.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/loops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

/// Rows and vectors of columns of c that registers hold at once: their sums, two vectors of b and
/// one element of a fill the sixteen registers of AVX2.
constexpr int kRows = 6, kVectors = 2;

HWY_INLINE float widen_one(float x) {
  return x;
}
HWY_INLINE float widen_one(BFloat16 x) {
  return std::bit_cast<float>(std::uint32_t{x.bits} << 16);
}

/// Element (i, k) of a is at data[i * row + k * column].
template <typename T>
struct Left {
  const T* data;
  std::int64_t row, column;

  HWY_INLINE Vector at(std::int64_t i, std::int64_t k) const {
    return constant(widen_one(data[i * row + k * column]));
  }
};

/// Columns of b and c that a step computes: `vectors` of them, the last with n lanes.
template <int vectors>
struct Columns {
  std::int64_t n;

  HWY_INLINE std::int64_t lanes_of(int v) const { return v + 1 < vectors ? lanes() : n; }
};

template <int rows, int vectors, typename A, typename B>
HWY_INLINE void multiply_tile(const ProductShape& shape, const Left<A>& a, std::int64_t i,
                              const B* b, Columns<vectors> columns, float* c) {
  Vector sums[rows][vectors];
  const bool adds = shape.addend == Addend::destination;
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      const float* from = c + r * shape.n + v * lanes();
      sums[r][v] = adds ? load(from, columns.lanes_of(v)) : zero();
    }
  }
  for (std::int64_t k = 0; k < shape.k; ++k) {
    Vector row[vectors];
    for (int v = 0; v < vectors; ++v)
      row[v] = load(b + k * shape.n + v * lanes(), columns.lanes_of(v));
    for (int r = 0; r < rows; ++r) {
      const Vector x = a.at(i + r, k);
      for (int v = 0; v < vectors; ++v) sums[r][v] = hn::MulAdd(x, row[v], sums[r][v]);
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v)
      store(sums[r][v], c + r * shape.n + v * lanes(), columns.lanes_of(v));
  }
}

/// All rows of some columns: their part of b stays in the nearest cache.
template <int vectors, typename A, typename B>
HWY_INLINE void multiply_columns(const ProductShape& shape, const Left<A>& a, const B* b,
                                 Columns<vectors> columns, float* c) {
  std::int64_t i = 0;
  for (; i + kRows <= shape.m; i += kRows)
    multiply_tile<kRows>(shape, a, i, b, columns, c + i * shape.n);
  for (; i < shape.m; ++i) multiply_tile<1>(shape, a, i, b, columns, c + i * shape.n);
}

template <typename A, typename B>
HWY_INLINE void multiply_matrices(const ProductShape& shape, const Left<A>& a, const B* b,
                                  float* c) {
  const std::int64_t step = kVectors * lanes();
  std::int64_t j = 0;
  for (; j + step <= shape.n; j += step)
    multiply_columns<kVectors>(shape, a, b + j, Columns<kVectors>{lanes()}, c + j);
  for (; j < shape.n; j += lanes())
    multiply_columns<1>(shape, a, b + j, Columns<1>{std::min(lanes(), shape.n - j)}, c + j);
}

/// to[k, n] = from[n, k]^T.
template <typename T>
HWY_INLINE void transpose(const T* from, std::int64_t n, std::int64_t k, float* to) {
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < k; ++j) to[j * n + i] = widen_one(from[i * k + j]);
  }
}

void multiply_all(const ProductShape& shape, const void* a_data, const void* b_data, float* c,
                  float* scratch) {
  with_type(shape.input, [&]<typename T>(T*) HWY_ATTR {
    const bool transposed = shape.a == Layout::transposed;
    const Left<T> a{.data = static_cast<const T*>(a_data),
                    .row = transposed ? 1 : shape.k,
                    .column = transposed ? shape.m : 1};
    const T* b = static_cast<const T*>(b_data);
    if (shape.b == Layout::plain) return multiply_matrices(shape, a, b, c);
    transpose(b, shape.n, shape.k, scratch);
    multiply_matrices(shape, a, scratch, c);
  });
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::tensor {
namespace {

HWY_EXPORT(multiply_all);

}  // namespace

std::size_t multiply_scratch_bytes(const ProductShape& shape) {
  return shape.b == Layout::transposed ? static_cast<std::size_t>(shape.k * shape.n) * sizeof(float)
                                       : 0;
}

void multiply(const ProductShape& shape, const void* a, const void* b, float* c, void* scratch) {
  TROUPE_ASSERT(shape.output == DType::f32 && shape.b != Layout::packed);
  TROUPE_ASSERT(shape.a != Layout::packed && shape.addend != Addend::matrix);
  HWY_DYNAMIC_DISPATCH(multiply_all)(shape, a, b, c, static_cast<float*>(scratch));
}

}  // namespace troupe::tensor
#endif
