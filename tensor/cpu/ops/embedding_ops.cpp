#include "tensor/cpu/loops/parallel.h"
#include "tensor/cpu/ops/cpu_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/ops/embedding_ops.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/loops/simd-inl.h"

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
  with_type(x.dtype, [&]<typename T>(T*) HWY_ATTR {
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
  with_type(dx.dtype, [&]<typename T>(T*) HWY_ATTR {
    const std::int64_t channels = dtable.shape[1];
    for (std::int64_t t = 0; t < ids.num_elements(); ++t) {
      if (float* row = row_of(ids, first, dtable, t))
        add_row(dx.as<T>() + t * channels + begin, end - begin, row + begin);
    }
  });
}

void add_positions_rows(const Tensor& positions, std::int64_t first, const Tensor& x,
                        std::int64_t begin, std::int64_t end) {
  with_type(x.dtype, [&]<typename T>(T*) HWY_ATTR {
    const std::int64_t channels = positions.shape[1];
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t position = (first + t) % positions.shape[0];
      add_row(positions.as<float>() + position * channels, channels, x.as<T>() + t * channels);
    }
  });
}

void add_table_rows(const Tensor& table, const Tensor& rows, const Tensor& x, std::int64_t begin,
                    std::int64_t end) {
  with_type(x.dtype, [&]<typename T>(T*) HWY_ATTR {
    const std::int64_t channels = table.shape[1];
    for (std::int64_t t = begin; t < end; ++t)
      add_row(row_of(rows, 0, table, t), channels, x.as<T>() + t * channels);
  });
}

void positions_backward_columns(const Tensor& dx, std::int64_t first, const Tensor& dpositions,
                                std::int64_t begin, std::int64_t end) {
  with_type(dx.dtype, [&]<typename T>(T*) HWY_ATTR {
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

}  // namespace

void CpuOps::run_embedding_range(Stream&, const Tensor& ids, std::int64_t first,
                                 const Tensor& table, const Tensor& x) {
  call_for_ranges(threads_, ids.num_elements(), kRowGrain, HWY_DYNAMIC_DISPATCH(embedding_rows),
                  ids, first, table, x);
}

// Threads split the columns, so that each table row sums its tokens in ascending order.
void CpuOps::run_embedding_range_backward(Stream&, const Tensor& ids, std::int64_t first,
                                          const Tensor& dx, const Tensor& dtable) {
  call_for_ranges(threads_, dtable.shape[1], kColumnGrain,
                  HWY_DYNAMIC_DISPATCH(embedding_backward_columns), ids, first, dx, dtable);
}

void CpuOps::run_add_positions(Stream&, const Tensor& positions, std::int64_t first,
                               const Tensor& x) {
  call_for_ranges(threads_, x.num_elements() / positions.shape[1], kRowGrain,
                  HWY_DYNAMIC_DISPATCH(add_positions_rows), positions, first, x);
}

void CpuOps::run_add_rows(Stream&, const Tensor& table, const Tensor& rows, const Tensor& x) {
  call_for_ranges(threads_, rows.num_elements(), kRowGrain, HWY_DYNAMIC_DISPATCH(add_table_rows),
                  table, rows, x);
}

// Threads split the columns, so that each position sums its tokens in ascending order.
void CpuOps::run_positions_backward(Stream&, const Tensor& dx, std::int64_t first,
                                    const Tensor& dpositions) {
  call_for_ranges(threads_, dpositions.shape[1], kColumnGrain,
                  HWY_DYNAMIC_DISPATCH(positions_backward_columns), dx, first, dpositions);
}

}  // namespace troupe::tensor
#endif
