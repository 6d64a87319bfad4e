#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/device/linear.h"

namespace troupe::tensor::cuda {

/// The three products of a linear layer.
enum class ProductKind { forward, input_gradient, weight_gradient };

/// What a factor of a product is: x[T, in], w[out, in], or dy[T, out].
enum class Operand { x, w, dy };

/// A matrix as BLAS sees memory: element (i, j) is at i + j * ld, with 0 <= i < rows, j < columns.
struct ColumnMajor {
  DType dtype = DType::f32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t ld = 0;
};

/// A product D[m, n] = op(A) op(B) (+ C), in the words of BLAS. op transposes if so said; op(A) has
/// m rows and k columns, op(B) k rows and n columns. C has D's layout.
struct ProductLayout {
  Operand a_is = Operand::x;
  Operand b_is = Operand::x;
  bool transpose_a = false;
  bool transpose_b = false;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  ColumnMajor a, b, d;
};

/// A row-major matrix [R, C] is, to BLAS, a column-major one of C rows and R columns: so every
/// product runs on the tensors as they lie, and one copy of w serves them all. Sums are float32.
/// forward gives y, input_gradient dx, weight_gradient dw (float32). Throws Error{manifest} for
/// sizes below 1 and types that cuBLASLt does not multiply.
ProductLayout product_layout(const LinearShape& shape, ProductKind kind);

/// The alignment in bytes, at most 256, that every address has which is a whole number of rows of
/// the tensor behind a memory block's start, itself aligned to 256 bytes.
std::size_t alignment_of(const ColumnMajor& matrix);

}  // namespace troupe::tensor::cuda
