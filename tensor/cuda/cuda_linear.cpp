#include "tensor/cuda/cuda_linear.h"

#include <algorithm>

#include "tensor/cuda/kernel_stream.h"
#include "tensor/error.h"
#include "tensor/ops.h"

namespace troupe::tensor::cuda {
namespace {

bool is_matrix(const Tensor& x, DType dtype, std::int64_t rows, std::int64_t columns) {
  return x.dtype == dtype && x.num_elements() == rows * columns;
}

}  // namespace

CudaLinear::CudaLinear(const ProductLibrary& library, const LinearShape& shape)
    : shape_(shape),
      forward_(library, product_layout(shape, ProductKind::forward), false),
      input_gradient_(library, product_layout(shape, ProductKind::input_gradient), false),
      weight_gradient_(library, product_layout(shape, ProductKind::weight_gradient), true) {}

std::size_t CudaLinear::packed_bytes() const {
  return static_cast<std::size_t>(shape_.in * shape_.out) * size_of(shape_.dtype);
}

ScratchBytes CudaLinear::scratch_bytes() const {
  return {
      .forward = forward_.workspace_bytes(),
      .backward = std::max(input_gradient_.workspace_bytes(), weight_gradient_.workspace_bytes())};
}

void CudaLinear::pack(Stream& stream, const Tensor& w, void* packed) {
  TROUPE_ASSERT(is_matrix(w, DType::f32, shape_.out, shape_.in));
  stream.device().ops().copy(stream, w, packed_copy(packed));
}

Tensor CudaLinear::packed_copy(void* packed) const {
  return {packed, shape_.dtype, {shape_.out, shape_.in}};
}

void CudaLinear::forward(Stream& stream, const Tensor& x, const void* packed, const Tensor& y,
                         const Tensor& residual) {
  TROUPE_ASSERT(is_matrix(x, shape_.dtype, shape_.rows, shape_.in));
  TROUPE_ASSERT(is_matrix(y, shape_.output_dtype, shape_.rows, shape_.out));
  TROUPE_ASSERT(!residual || is_matrix(residual, shape_.output_dtype, shape_.rows, shape_.out));
  run(forward_, stream, {x.data, packed, nullptr}, residual.data, y.data, scratch_.forward);
}

void CudaLinear::input_gradient(Stream& stream, const Tensor& dy, const void* packed,
                                const Tensor& dx) {
  TROUPE_ASSERT(is_matrix(dy, shape_.dtype, shape_.rows, shape_.out));
  TROUPE_ASSERT(is_matrix(dx, shape_.dtype, shape_.rows, shape_.in));
  run(input_gradient_, stream, {nullptr, packed, dy.data}, nullptr, dx.data, scratch_.backward);
}

void CudaLinear::weight_gradient(Stream& stream, const Tensor& dy, const Tensor& x,
                                 const Tensor& dw, Gradient gradient) {
  TROUPE_ASSERT(is_matrix(dy, shape_.dtype, shape_.rows, shape_.out));
  TROUPE_ASSERT(is_matrix(x, shape_.dtype, shape_.rows, shape_.in));
  TROUPE_ASSERT(is_matrix(dw, DType::f32, shape_.out, shape_.in));
  const void* const addend = gradient == Gradient::added ? dw.data : nullptr;
  run(weight_gradient_, stream, {x.data, nullptr, dy.data}, addend, dw.data, scratch_.backward);
}

void CudaLinear::run(CudaProduct& product, Stream& stream, const Operands& operands,
                     const void* addend, void* result, void* workspace) {
  const ProductLayout& layout = product.layout();
  const auto address = [&](Operand operand) { return operands[static_cast<std::size_t>(operand)]; };
  product.run(static_cast<KernelStream&>(stream).handle(),
              {address(layout.a_is), address(layout.b_is), addend, result}, workspace);
}

}  // namespace troupe::tensor::cuda
