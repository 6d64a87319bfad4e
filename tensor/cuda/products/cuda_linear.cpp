#include "tensor/cuda/products/cuda_linear.h"

#include <algorithm>

#include "tensor/cuda/runtime/kernel_stream.h"
#include "tensor/device/ops.h"
#include "tensor/errors/error.h"

namespace troupe::tensor::cuda {
namespace {

bool is_matrix(const Tensor& x, DType dtype, std::int64_t rows, std::int64_t columns) {
  return x.dtype == dtype && x.num_elements() == rows * columns;
}

}  // namespace

CudaLinear::Products::Products(const ProductLibrary& library, const LinearShape& shape)
    : rows(shape.rows), forward(library, product_layout(shape, ProductKind::forward), false) {
  if (!shape.gradients) return;
  input_gradient.emplace(library, product_layout(shape, ProductKind::input_gradient), false);
  weight_gradient.emplace(library, product_layout(shape, ProductKind::weight_gradient), true);
}

CudaLinear::CudaLinear(const ProductLibrary& library, const LinearShape& shape) : shape_(shape) {
  LinearShape part = shape;
  for (const std::int64_t rows : row_counts(shape)) {
    part.rows = rows;
    products_.emplace_back(library, part);
  }
}

std::size_t CudaLinear::packed_bytes() const {
  return static_cast<std::size_t>(shape_.in * shape_.out) * size_of(shape_.dtype);
}

ScratchBytes CudaLinear::scratch_bytes() const {
  ScratchBytes most;
  for (const Products& products : products_) {
    most.forward = std::max(most.forward, products.forward.workspace_bytes());
    for (const auto* gradient : {&products.input_gradient, &products.weight_gradient})
      if (*gradient) most.backward = std::max(most.backward, (*gradient)->workspace_bytes());
  }
  return most;
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
  Products& products = products_for(x, y, shape_.output_dtype);
  TROUPE_ASSERT(!residual ||
                is_matrix(residual, y.dtype, y.num_elements() / shape_.out, shape_.out));
  run(products.forward, stream, {x.data, packed, nullptr}, residual.data, y.data, scratch_.forward);
}

void CudaLinear::input_gradient(Stream& stream, const Tensor& dy, const void* packed,
                                const Tensor& dx) {
  Products& products = products_for(dx, dy, shape_.dtype);
  run(products.input_gradient.value(), stream, {nullptr, packed, dy.data}, nullptr, dx.data,
      scratch_.backward);
}

void CudaLinear::weight_gradient(Stream& stream, const Tensor& dy, const Tensor& x,
                                 const Tensor& dw, Gradient gradient) {
  Products& products = products_for(x, dy, shape_.dtype);
  TROUPE_ASSERT(is_matrix(dw, DType::f32, shape_.out, shape_.in));
  const void* const addend = gradient == Gradient::added ? dw.data : nullptr;
  run(products.weight_gradient.value(), stream, {x.data, nullptr, dy.data}, addend, dw.data,
      scratch_.backward);
}

CudaLinear::Products& CudaLinear::products_for(const Tensor& x, const Tensor& y, DType y_dtype) {
  const std::int64_t rows = x.num_elements() / shape_.in;
  TROUPE_ASSERT(is_matrix(x, shape_.dtype, rows, shape_.in));
  TROUPE_ASSERT(is_matrix(y, y_dtype, rows, shape_.out));
  const auto found = std::ranges::find(products_, rows, &Products::rows);
  TROUPE_ASSERT(found != products_.end());
  return *found;
}

void CudaLinear::run(CudaProduct& product, Stream& stream, const Operands& operands,
                     const void* addend, void* result, void* workspace) {
  const ProductLayout& layout = product.layout();
  const auto address = [&](Operand operand) { return operands[static_cast<std::size_t>(operand)]; };
  product.run(handle_of(stream), {address(layout.a_is), address(layout.b_is), addend, result},
              workspace);
}

}  // namespace troupe::tensor::cuda
