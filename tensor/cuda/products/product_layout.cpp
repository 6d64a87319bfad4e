#include "tensor/cuda/products/product_layout.h"

#include <fmt/format.h>

#include <numeric>

#include "tensor/errors/error.h"

namespace troupe::tensor::cuda {
namespace {

void check_types(const LinearShape& shape) {
  const bool bf16 = shape.dtype == DType::bf16;
  const bool served = shape.output_dtype == DType::f32 ? bf16 || shape.dtype == DType::f32
                                                       : bf16 && shape.output_dtype == DType::bf16;
  if (!served) {
    throw Error(ErrorKind::manifest,
                fmt::format("a linear layer of {} with outputs of {} on a GPU; use float32 for "
                            "both, bfloat16 for both, or bfloat16 with outputs of float32",
                            name_of(shape.dtype), name_of(shape.output_dtype)));
  }
}

/// The row-major tensor [rows, columns].
ColumnMajor seen(DType dtype, std::int64_t rows, std::int64_t columns) {
  return {.dtype = dtype, .rows = columns, .columns = rows, .ld = columns};
}

}  // namespace

ProductLayout product_layout(const LinearShape& shape, ProductKind kind) {
  check_types(shape);
  check(shape);
  const std::int64_t rows = shape.rows, in = shape.in, out = shape.out;
  const DType dtype = shape.dtype, output_dtype = shape.output_dtype;
  const ColumnMajor x = seen(dtype, rows, in), w = seen(dtype, out, in),
                    dy = seen(dtype, rows, out);
  switch (kind) {
    case ProductKind::forward:  // y^T[out, T] = w x^T
      return {.a_is = Operand::w,
              .b_is = Operand::x,
              .transpose_a = true,
              .m = out,
              .n = rows,
              .k = in,
              .a = w,
              .b = x,
              .d = seen(output_dtype, rows, out)};
    case ProductKind::input_gradient:  // dx^T[in, T] = w^T dy^T
      return {.a_is = Operand::w,
              .b_is = Operand::dy,
              .m = in,
              .n = rows,
              .k = out,
              .a = w,
              .b = dy,
              .d = seen(dtype, rows, in)};
    case ProductKind::weight_gradient:  // dw^T[in, out] = x^T dy
      return {.a_is = Operand::x,
              .b_is = Operand::dy,
              .transpose_b = true,
              .m = in,
              .n = out,
              .k = rows,
              .a = x,
              .b = dy,
              .d = seen(DType::f32, out, in)};
  }
  assert_failed("kind is a ProductKind", __FILE__, __LINE__);
}

std::size_t alignment_of(const ColumnMajor& matrix) {
  constexpr std::size_t kMost = 256;
  return std::gcd(kMost, static_cast<std::size_t>(matrix.ld) * size_of(matrix.dtype));
}

}  // namespace troupe::tensor::cuda
