#include "tensor/cpu/ops/random_fills.h"

#include <algorithm>
#include <numbers>

#include "tensor/cpu/loops/parallel.h"
#include "tensor/errors/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/ops/random_fills.cpp"
#include <hwy/foreach_target.h>

// After it: compiled once per target.
#include <hwy/contrib/math/math-inl.h>

#include "tensor/cpu/loops/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

using F64 = hn::ScalableTag<double>;
using I64 = hn::RebindToSigned<F64>;
using HalfF32 = hn::Rebind<float, F64>;
using Doubles = hn::Vec<F64>;
using Words = hn::Vec<U64>;

HWY_INLINE Words words(std::uint64_t x) {
  return hn::Set(U64(), x);
}
HWY_INLINE Doubles doubles(double x) {
  return hn::Set(F64(), x);
}

/// Random::bits() of the indices 2 counter and 2 counter + 1.
struct Halves {
  Words even, odd;
};
HWY_INLINE Halves halves_of(const PhiloxBlocks& blocks) {
  return {join_lower(blocks.c0, blocks.c1), join_lower(blocks.c2, blocks.c3)};
}

/// Random::uniform() of these bits.
HWY_INLINE Doubles to_uniform(Words bits) {
  const auto mantissa = hn::BitCast(I64(), hn::ShiftRight<11>(bits));
  return hn::Mul(hn::ConvertTo(F64(), mantissa), doubles(0x1p-53));
}

/// Writes float(stddev * Random::normal(index + lane)) if that can be told. Highway's logarithm and
/// cosine are a few units in the last place of a double off, and the C library's may differ in
/// another way: a float is certain if everything within a margin far wider than that rounds to it.
HWY_INLINE bool try_normal(std::uint64_t key, std::uint64_t index, double stddev, float* out) {
  constexpr double kMargin = 0x1p-40;  // of the radius: one vector in some thousands is uncertain
  const Halves blocks = halves_of(blocks_at(key, hn::Iota(U64(), index)));
  const Doubles u = hn::Sub(doubles(1.0), to_uniform(blocks.even));
  const Doubles angle = hn::Mul(doubles(2.0 * std::numbers::pi), to_uniform(blocks.odd));
  const Doubles radius =
      hn::Mul(doubles(stddev), hn::Sqrt(hn::Mul(doubles(-2.0), hn::Log(F64(), u))));
  const Doubles x = hn::Mul(radius, hn::Cos(F64(), angle));
  const Doubles margin = hn::Mul(radius, doubles(kMargin));
  const auto lowest = hn::DemoteTo(HalfF32(), hn::Sub(x, margin));
  const auto highest = hn::DemoteTo(HalfF32(), hn::Add(x, margin));
  hn::StoreU(lowest, HalfF32(), out);
  // Zeros are equal that differ in their sign.
  const auto is_certain = hn::And(hn::Eq(lowest, highest), hn::Ne(lowest, hn::Zero(HalfF32())));
  return hn::AllTrue(HalfF32(), is_certain);
}

/// Writes float(bound * (2 u - 1)), of which only the product and the float are rounded.
HWY_INLINE void uniform(std::uint64_t key, std::uint64_t index, double bound, float* out) {
  const Words place = hn::Iota(U64(), index);
  const Halves blocks = halves_of(blocks_at(key, hn::ShiftRight<1>(place)));
  const auto is_even = hn::Eq(hn::And(place, words(1)), words(0));
  const Doubles u = to_uniform(hn::IfThenElse(is_even, blocks.even, blocks.odd));
  const Doubles x = hn::Mul(doubles(bound), hn::Sub(hn::Add(u, u), doubles(1.0)));
  hn::StoreU(hn::DemoteTo(HalfF32(), x), HalfF32(), out);
}

/// Sets the elements [begin, end) of a part with so many columns: calls draw(index, out) for each
/// vector of elements, where elements index, index + 1, ... go to out, and draw_one(index) for
/// those between the last vector and the end of a row.
template <typename Draw, typename DrawOne>
HWY_INLINE void for_each_row(float* x, const MatrixSlice& slice, std::int64_t columns,
                             std::int64_t begin, std::int64_t end, const Draw& draw,
                             const DrawOne& draw_one) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(F64()));
  for (std::int64_t i = begin; i < end;) {
    const std::int64_t row = i / columns;
    std::uint64_t index = slice.index(row, i - row * columns);
    const std::int64_t row_end = std::min(end, (row + 1) * columns);
    for (; i + lanes <= row_end; i += lanes, index += static_cast<std::uint64_t>(lanes))
      draw(index, x + i);
    for (; i < row_end; ++i, ++index) x[i] = draw_one(index);
  }
}

void normal_range(float* x, const Random& random, double stddev, const MatrixSlice& slice,
                  std::int64_t columns, std::int64_t begin, std::int64_t end) {
  const auto one = [&](std::uint64_t index) {
    return static_cast<float>(stddev * random.normal(index));
  };
  for_each_row(
      x, slice, columns, begin, end,
      [&](std::uint64_t index, float* out) HWY_ATTR {
        if (try_normal(random.key(), index, stddev, out)) return;
        for (std::size_t lane = 0; lane < hn::Lanes(F64()); ++lane) out[lane] = one(index + lane);
      },
      one);
}

void uniform_range(float* x, const Random& random, double bound, const MatrixSlice& slice,
                   std::int64_t columns, std::int64_t begin, std::int64_t end) {
  for_each_row(
      x, slice, columns, begin, end,
      [&](std::uint64_t index, float* out) HWY_ATTR { uniform(random.key(), index, bound, out); },
      [&](std::uint64_t index) {
        return static_cast<float>(bound * (2 * random.uniform(index) - 1));
      });
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::tensor {
namespace {

HWY_EXPORT(normal_range);
HWY_EXPORT(uniform_range);

/// Calls fill(float*, random, scale, slice, columns, begin, end) for ranges of elements.
template <typename Fill>
void fill_ranges(const Tensor& x, const MatrixSlice& slice, const Random& random, double scale,
                 int threads, const Fill& fill) {
  TROUPE_ASSERT(x.dtype == DType::f32 && x.shape.rank() == 2);
  const std::int64_t columns = x.shape[1];
  TROUPE_ASSERT(slice.first_column + columns <= slice.columns);
  constexpr std::int64_t kGrain = 4096;
  call_for_ranges(threads, x.num_elements(), kGrain, fill, x.as<float>(), random, scale, slice,
                  columns);
}

}  // namespace

void fill_normal(const Tensor& x, std::uint64_t seed, std::string_view name, double stddev,
                 int threads) {
  const Tensor row{x.data, x.dtype, {1, x.num_elements()}};
  fill_normal(row, {.columns = x.num_elements()}, seed, name, stddev, threads);
}

void fill_normal(const Tensor& x, const MatrixSlice& slice, std::uint64_t seed,
                 std::string_view name, double stddev, int threads) {
  fill_ranges(x, slice, Random(seed, name), stddev, threads, HWY_DYNAMIC_DISPATCH(normal_range));
}

void fill_uniform(const Tensor& x, const MatrixSlice& slice, std::uint64_t seed,
                  std::string_view name, double bound, int threads) {
  fill_ranges(x, slice, Random(seed, name), bound, threads, HWY_DYNAMIC_DISPATCH(uniform_range));
}

}  // namespace troupe::tensor
#endif
