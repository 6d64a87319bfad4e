#include "tensor/cpu/products/cpu_linear.h"

#include <algorithm>

#include "tensor/errors/error.h"

namespace troupe::tensor {
namespace {

ProductShape forward_of(const LinearShape& shape, Addend addend) {
  return {.m = shape.rows,
          .k = shape.in,
          .n = shape.out,
          .input = shape.dtype,
          .output = shape.output_dtype,
          .b = Layout::packed,
          .addend = addend};
}

ProductShape input_gradient_of(const LinearShape& shape) {
  return {.m = shape.rows,
          .k = shape.out,
          .n = shape.in,
          .input = shape.dtype,
          .output = shape.dtype,
          .b = Layout::packed};
}

ProductShape weight_gradient_of(const LinearShape& shape, Addend addend) {
  return {.m = shape.out,
          .k = shape.rows,
          .n = shape.in,
          .input = shape.dtype,
          .output = DType::f32,
          .a = Layout::transposed,
          .addend = addend};
}

}  // namespace

CpuLinear::Gradients::Gradients(const LinearShape& shape, int threads, const Gradients* packed_like)
    : input(packed_like ? Product(input_gradient_of(shape), threads, packed_like->input)
                        : Product(input_gradient_of(shape), threads)),
      first_weight(weight_gradient_of(shape, Addend::none), threads),
      added_weight(weight_gradient_of(shape, Addend::destination), threads) {}

CpuLinear::Products::Products(const LinearShape& shape, int threads, const Products* packed_like)
    : rows(shape.rows),
      forward(packed_like ? Product(forward_of(shape, Addend::none), threads, packed_like->forward)
                          : Product(forward_of(shape, Addend::none), threads)),
      forward_residual(forward_of(shape, Addend::matrix), threads, forward) {
  if (shape.gradients)
    gradients.emplace(shape, threads, packed_like ? &*packed_like->gradients : nullptr);
}

ScratchBytes CpuLinear::Products::scratch_bytes() const {
  ScratchBytes bytes{.forward =
                         std::max(forward.scratch_bytes(), forward_residual.scratch_bytes())};
  if (gradients)
    bytes.backward =
        std::max({gradients->input.scratch_bytes(), gradients->first_weight.scratch_bytes(),
                  gradients->added_weight.scratch_bytes()});
  return bytes;
}

void CpuLinear::Products::set_scratch(const Scratch& scratch) {
  for (Product* product : {&forward, &forward_residual}) product->set_scratch(scratch.forward);
  if (!scratch.backward || !gradients) return;
  for (Product* product : {&gradients->input, &gradients->first_weight, &gradients->added_weight})
    product->set_scratch(scratch.backward);
}

CpuLinear::CpuLinear(const LinearShape& shape, int threads) : shape_(check(shape)) {
  const std::vector<std::int64_t> counts = row_counts(shape);
  products_.reserve(counts.size());
  LinearShape part = shape;
  for (const std::int64_t rows : counts) {
    part.rows = rows;
    products_.emplace_back(part, threads, products_.empty() ? nullptr : &products_.front());
  }
}

ScratchBytes CpuLinear::scratch_bytes() const {
  ScratchBytes most;
  for (const Products& products : products_) {
    const auto [forward, backward] = products.scratch_bytes();
    most = {.forward = std::max(most.forward, forward),
            .backward = std::max(most.backward, backward)};
  }
  return most;
}

void CpuLinear::set_scratch(const Scratch& scratch) {
  for (Products& products : products_) products.set_scratch(scratch);
}

std::size_t CpuLinear::packed_bytes() const {
  if (!first().gradients) return first().forward.packed_bytes();
  return input_gradient_offset() + first().gradients->input.packed_bytes();
}

std::size_t CpuLinear::input_gradient_offset() const {
  return aligned(first().forward.packed_bytes());
}

void CpuLinear::pack(Stream&, const Tensor& w, void* packed) {
  TROUPE_ASSERT(w.dtype == DType::f32 && w.num_elements() == shape_.in * shape_.out);
  Products& products = products_.front();
  products.forward.pack(w.as<float>(), Layout::transposed, packed);
  if (!products.gradients) return;
  products.gradients->input.pack(w.as<float>(), Layout::plain,
                                 static_cast<std::byte*>(packed) + input_gradient_offset());
}

void CpuLinear::forward(Stream&, const Tensor& x, const void* packed, const Tensor& y,
                        const Tensor& residual) {
  Products& products = products_for(rows_of(x, y, shape_.output_dtype));
  TROUPE_ASSERT(!residual ||
                (residual.dtype == y.dtype && residual.num_elements() == y.num_elements()));
  Product& product = residual ? products.forward_residual : products.forward;
  product.run(x.data, packed, y.data, residual.data);
}

void CpuLinear::input_gradient(Stream&, const Tensor& dy, const void* packed, const Tensor& dx) {
  gradients_for(rows_of(dx, dy, shape_.dtype))
      .input.run(dy.data, static_cast<const std::byte*>(packed) + input_gradient_offset(), dx.data);
}

void CpuLinear::weight_gradient(Stream&, const Tensor& dy, const Tensor& x, const Tensor& dw,
                                Gradient gradient) {
  TROUPE_ASSERT(dw.dtype == DType::f32 && dw.num_elements() == shape_.in * shape_.out);
  Gradients& gradients = gradients_for(rows_of(x, dy, shape_.dtype));
  const bool is_first = gradient == Gradient::first;
  (is_first ? gradients.first_weight : gradients.added_weight).run(dy.data, x.data, dw.data);
}

std::int64_t CpuLinear::rows_of(const Tensor& x, const Tensor& y, DType y_dtype) const {
  const std::int64_t rows = x.num_elements() / shape_.in;
  TROUPE_ASSERT(x.dtype == shape_.dtype && x.num_elements() == rows * shape_.in);
  TROUPE_ASSERT(y.dtype == y_dtype && y.num_elements() == rows * shape_.out);
  return rows;
}

CpuLinear::Products& CpuLinear::products_for(std::int64_t rows) {
  const auto found = std::ranges::find(products_, rows, &Products::rows);
  TROUPE_ASSERT(found != products_.end());
  return *found;
}

CpuLinear::Gradients& CpuLinear::gradients_for(std::int64_t rows) {
  Products& products = products_for(rows);
  TROUPE_ASSERT(products.gradients);
  return *products.gradients;
}

}  // namespace troupe::tensor
