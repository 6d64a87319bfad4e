#include "tensor/cpu/attention/attention_heads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/attention/attention_heads.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/attention/attention_rows-inl.h"
#include "tensor/cpu/loops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

template <typename T>
HWY_INLINE T* head_at(const HeadRows& rows, std::int64_t p, std::int64_t offset) {
  return static_cast<T*>(rows.data) + p * rows.stride + offset;
}

template <typename From, typename To>
HWY_INLINE void rotate_head(const From* from, const float* cos, const float* sin, float sign,
                            std::int64_t half, To* to) {
  for_each_vector(half, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
    const auto c = load(cos + i, n);
    const auto s = hn::Mul(load(sin + i, n), constant(sign));
    const auto x = load(from + i, n);
    const auto y = load(from + half + i, n);
    store(hn::NegMulAdd(y, s, hn::Mul(x, c)), to + i, n);
    store(hn::MulAdd(x, s, hn::Mul(y, c)), to + half + i, n);
  });
}

template <typename From, typename To>
HWY_INLINE void copy_row(const From* from, std::int64_t count, To* to) {
  for_each_vector(
      count, [&](std::int64_t i, std::int64_t n) HWY_ATTR { store(load(from + i, n), to + i, n); });
}

void rotate_all(const QueryBlock& block, Rotation rotation, Direction direction,
                const HeadRows& from, const HeadRows& to) {
  const std::int64_t half = rotation.dim / 2, kept = block.head_dim - rotation.dim;
  const float sign = direction == Direction::forward ? 1.0f : -1.0f;
  with_type(from.dtype, [&]<typename From>(From*) HWY_ATTR {
    with_type(to.dtype, [&]<typename To>(To*) HWY_ATTR {
      for_each_row(block, [&](std::int64_t, std::int64_t p, std::int64_t g) HWY_ATTR {
        const std::int64_t angle = (block.first + p) * half, column = g * block.head_dim;
        const From* source = head_at<const From>(from, p, column);
        To* target = head_at<To>(to, p, column);
        rotate_head(source, rotation.cos + angle, rotation.sin + angle, sign, half, target);
        if (kept > 0) copy_row(source + rotation.dim, kept, target + rotation.dim);
      });
    });
  });
}

void copy_all(const QueryBlock& block, const HeadRows& from, const HeadRows& to) {
  with_type(from.dtype, [&]<typename From>(From*) HWY_ATTR {
    with_type(to.dtype, [&]<typename To>(To*) HWY_ATTR {
      for (std::int64_t p = 0; p < block.positions; ++p)
        copy_row(head_at<const From>(from, p, 0), block.group * block.head_dim,
                 head_at<To>(to, p, 0));
    });
  });
}

void scale_all(const QueryBlock& block, const float* values, const float* inverse_sum,
               const HeadRows& out) {
  with_type(out.dtype, [&]<typename T>(T*) HWY_ATTR {
    for_each_row(block, [&](std::int64_t r, std::int64_t p, std::int64_t g) HWY_ATTR {
      const float* row = values + r * block.head_dim;
      const auto factor = constant(inverse_sum[r]);
      T* to = head_at<T>(out, p, g * block.head_dim);
      for_each_vector(block.head_dim, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
        store(hn::Mul(load(row + i, n), factor), to + i, n);
      });
    });
  });
}

void gather_all(const QueryBlock& block, const HeadRows& dout, const HeadRows& out, void* packed,
                float* delta) {
  with_type(dout.dtype, [&]<typename T>(T*) HWY_ATTR {
    for_each_row(block, [&](std::int64_t r, std::int64_t p, std::int64_t g) HWY_ATTR {
      const T* gradient = head_at<const T>(dout, p, g * block.head_dim);
      const T* output = head_at<const T>(out, p, g * block.head_dim);
      T* to = static_cast<T*>(packed) + r * block.head_dim;
      auto dot = zero();
      for_each_vector(block.head_dim, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
        const auto d = load(gradient + i, n);
        dot = hn::MulAdd(d, load(output + i, n), dot);
        store(d, to + i, n);
      });
      delta[r] = sum_of_lanes(dot);
    });
  });
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::tensor {
namespace {

HWY_EXPORT(rotate_all);
HWY_EXPORT(copy_all);
HWY_EXPORT(scale_all);
HWY_EXPORT(gather_all);

}  // namespace

void rotate_heads(const QueryBlock& block, Rotation rotation, Direction direction,
                  const HeadRows& from, const HeadRows& to) {
  HWY_DYNAMIC_DISPATCH(rotate_all)(block, rotation, direction, from, to);
}

void copy_heads(const QueryBlock& block, const HeadRows& from, const HeadRows& to) {
  HWY_DYNAMIC_DISPATCH(copy_all)(block, from, to);
}

void scale_heads(const QueryBlock& block, const float* values, const float* inverse_sum,
                 const HeadRows& out) {
  HWY_DYNAMIC_DISPATCH(scale_all)(block, values, inverse_sum, out);
}

void gather_gradient(const QueryBlock& block, const HeadRows& dout, const HeadRows& out,
                     void* packed, float* delta) {
  HWY_DYNAMIC_DISPATCH(gather_all)(block, dout, out, packed, delta);
}

}  // namespace troupe::tensor
#endif
