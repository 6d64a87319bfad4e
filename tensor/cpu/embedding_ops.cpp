#include "tensor/cpu/cpu_ops.h"
#include "tensor/cpu/parallel.h"
#include "tensor/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/embedding_ops.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

template <typename From, typename To>
HWY_INLINE void add_row(const From* x, std::int64_t count, To* sum) {
  for_each_vector(count, [&](std::int64_t c, std::int64_t n) HWY_ATTR {
    store(hn::Add(load(sum + c, n), load(x + c, n)), sum + c, n);
  });
}

/// The row of a table, whose first row is that of id `first`, for token t; none if the table lacks
/// it.
HWY_INLINE float* row_of(const Tensor& ids, std::int64_t first, const Tensor& table,
                         std::int64_t t) {
  const std::int64_t row = ids.as<std::int32_t>()[t] - first;
  return row >= 0 && row < table.shape[0] ? table.as<float>() + row * table.shape[1] : nullptr;
}

void embedding_rows(const Tensor& ids, std::int64_t first, const Tensor& table, const Tensor& x,
                    std::int64_t begin, std::int64_t end) {
  with_type(x.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    const std::int64_t channels = table.shape[1];
    for (std::int64_t t = begin; t < end; ++t) {
      const float* row = row_of(ids, first, table, t);
      T* out = x.as<T>() + t * channels;
      for_each_vector(channels, [&](std::int64_t c, std::int64_t n) HWY_ATTR {
        store(row ? load(row + c, n) : zero(), out + c, n);
      });
    }
  });
}

void embedding_backward_columns(const Tensor& ids, std::int64_t first, const Tensor& dx,
                                const Tensor& dtable, std::int64_t begin, std::int64_t end) {
  with_type(dx.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    const std::int64_t channels = dtable.shape[1];
    for (std::int64_t t = 0; t < ids.num_elements(); ++t) {
      if (float* row = row_of(ids, first, dtable, t))
        add_row(dx.as<T>() + t * channels + begin, end - begin, row + begin);
    }
  });
}

void add_positions_rows(const Tensor& positions, std::int64_t first, const Tensor& x,
                        std::int64_t begin, std::int64_t end) {
  with_type(x.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    const std::int64_t channels = positions.shape[1];
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t position = (first + t) % positions.shape[0];
      add_row(positions.as<float>() + position * channels, channels, x.as<T>() + t * channels);
    }
  });
}

void add_table_rows(const Tensor& table, const Tensor& rows, const Tensor& x, std::int64_t begin,
                    std::int64_t end) {
  with_type(x.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    const std::int64_t channels = table.shape[1];
    for (std::int64_t t = begin; t < end; ++t)
      add_row(row_of(rows, 0, table, t), channels, x.as<T>() + t * channels);
  });
}

void positions_backward_columns(const Tensor& dx, std::int64_t first, const Tensor& dpositions,
                                std::int64_t begin, std::int64_t end) {
  with_type(dx.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    const std::int64_t channels = dpositions.shape[1], tokens = dx.num_elements() / channels;
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t position = (first + t) % dpositions.shape[0];
      add_row(dx.as<T>() + t * channels + begin, end - begin,
              dpositions.as<float>() + position * channels + begin);
    }
  });
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::tensor {
namespace {

constexpr std::int64_t kRowGrain = 8;
constexpr std::int64_t kColumnGrain = 16;  // a cache line: no two threads write to the same one

HWY_EXPORT(embedding_rows);
HWY_EXPORT(embedding_backward_columns);
HWY_EXPORT(add_positions_rows);
HWY_EXPORT(add_table_rows);
HWY_EXPORT(positions_backward_columns);

void check_shapes(const Tensor& ids, const Tensor& table, const Tensor& x) {
  TROUPE_ASSERT(ids.dtype == DType::i32 && table.dtype == DType::f32 && table.shape.rank() == 2);
  TROUPE_ASSERT(x.num_elements() == ids.num_elements() * table.shape[1]);
}

void check_ids(const Tensor& ids, const Tensor& table) {
  for (std::int64_t t = 0; t < ids.num_elements(); ++t) {
    const std::int32_t id = ids.as<std::int32_t>()[t];
    TROUPE_ASSERT(id >= 0 && id < table.shape[0]);
  }
}

void check_positions(const Tensor& positions, std::int64_t first, const Tensor& x) {
  TROUPE_ASSERT(positions.dtype == DType::f32 && positions.shape.rank() == 2 && first >= 0);
  TROUPE_ASSERT(x.num_elements() % positions.shape[1] == 0);
}

}  // namespace

void CpuOps::embedding(Stream& stream, const Tensor& ids, const Tensor& table, const Tensor& x) {
  check_ids(ids, table);
  embedding_range(stream, ids, 0, table, x);
}

void CpuOps::embedding_backward(Stream& stream, const Tensor& ids, const Tensor& dx,
                                const Tensor& dtable) {
  check_ids(ids, dtable);
  embedding_range_backward(stream, ids, 0, dx, dtable);
}

void CpuOps::embedding_range(Stream&, const Tensor& ids, std::int64_t first, const Tensor& table,
                             const Tensor& x) {
  check_shapes(ids, table, x);
  const auto run = HWY_DYNAMIC_DISPATCH(embedding_rows);
  parallel_ranges(
      threads_, ids.num_elements(), kRowGrain,
      [&](std::int64_t begin, std::int64_t end) { run(ids, first, table, x, begin, end); });
}

// Threads split the columns, so that each table row sums its tokens in ascending order.
void CpuOps::embedding_range_backward(Stream&, const Tensor& ids, std::int64_t first,
                                      const Tensor& dx, const Tensor& dtable) {
  check_shapes(ids, dtable, dx);
  const auto run = HWY_DYNAMIC_DISPATCH(embedding_backward_columns);
  parallel_ranges(
      threads_, dtable.shape[1], kColumnGrain,
      [&](std::int64_t begin, std::int64_t end) { run(ids, first, dx, dtable, begin, end); });
}

void CpuOps::add_positions(Stream&, const Tensor& positions, std::int64_t first, const Tensor& x) {
  check_positions(positions, first, x);
  const auto run = HWY_DYNAMIC_DISPATCH(add_positions_rows);
  parallel_ranges(
      threads_, x.num_elements() / positions.shape[1], kRowGrain,
      [&](std::int64_t begin, std::int64_t end) { run(positions, first, x, begin, end); });
}

void CpuOps::add_rows(Stream&, const Tensor& table, const Tensor& rows, const Tensor& x) {
  check_shapes(rows, table, x);
  check_ids(rows, table);
  const auto run = HWY_DYNAMIC_DISPATCH(add_table_rows);
  parallel_ranges(threads_, rows.num_elements(), kRowGrain,
                  [&](std::int64_t begin, std::int64_t end) { run(table, rows, x, begin, end); });
}

// Threads split the columns, so that each position sums its tokens in ascending order.
void CpuOps::positions_backward(Stream&, const Tensor& dx, std::int64_t first,
                                const Tensor& dpositions) {
  check_positions(dpositions, first, dx);
  const auto run = HWY_DYNAMIC_DISPATCH(positions_backward_columns);
  parallel_ranges(
      threads_, dpositions.shape[1], kColumnGrain,
      [&](std::int64_t begin, std::int64_t end) { run(dx, first, dpositions, begin, end); });
}

}  // namespace troupe::tensor
#endif
