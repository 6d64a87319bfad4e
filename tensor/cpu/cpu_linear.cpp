#include "tensor/cpu/cpu_linear.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/error.h"

namespace troupe::tensor {
namespace {

LinearShape checked(const LinearShape& shape) {
  const auto is_act = [](DType dtype) { return dtype == DType::f32 || dtype == DType::bf16; };
  if (shape.rows < 1 || shape.in < 1 || shape.out < 1) {
    throw Error(ErrorKind::manifest,
                fmt::format("a linear layer of {} rows, {} inputs and {} outputs; each must be at "
                            "least 1",
                            shape.rows, shape.in, shape.out));
  }
  TROUPE_ASSERT(shape.row_step >= 0 && allows_rows(shape, shape.rows));
  if (!is_act(shape.dtype) || !is_act(shape.output_dtype)) {
    throw Error(ErrorKind::manifest,
                fmt::format("a linear layer of {} with outputs of {}; use float32 or bfloat16",
                            name_of(shape.dtype), name_of(shape.output_dtype)));
  }
  return shape;
}

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

CpuLinear::Products::Products(const LinearShape& shape, int threads, const Products* packed_like)
    : forward(packed_like ? Product(forward_of(shape, Addend::none), threads, packed_like->forward)
                          : Product(forward_of(shape, Addend::none), threads)),
      forward_residual(forward_of(shape, Addend::matrix), threads, forward),
      input_gradient(packed_like
                         ? Product(input_gradient_of(shape), threads, packed_like->input_gradient)
                         : Product(input_gradient_of(shape), threads)),
      first_gradient(weight_gradient_of(shape, Addend::none), threads),
      added_gradient(weight_gradient_of(shape, Addend::destination), threads) {}

ScratchBytes CpuLinear::Products::scratch_bytes() const {
  return {.forward = std::max(forward.scratch_bytes(), forward_residual.scratch_bytes()),
          .backward = std::max({input_gradient.scratch_bytes(), first_gradient.scratch_bytes(),
                                added_gradient.scratch_bytes()})};
}

void CpuLinear::Products::set_scratch(const Scratch& scratch) {
  for (Product* product : {&forward, &forward_residual}) product->set_scratch(scratch.forward);
  if (!scratch.backward) return;
  for (Product* product : {&input_gradient, &first_gradient, &added_gradient})
    product->set_scratch(scratch.backward);
}

CpuLinear::CpuLinear(const LinearShape& shape, int threads) : shape_(checked(shape)) {
  LinearShape part = shape;
  const std::int64_t step = shape.row_step > 0 ? shape.row_step : shape.rows;
  products_.reserve(static_cast<std::size_t>(shape.rows / step));
  for (; part.rows > 0; part.rows -= step)
    products_.emplace_back(part, threads, products_.empty() ? nullptr : &products_.front());
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
  return input_gradient_offset() + largest().input_gradient.packed_bytes();
}

std::size_t CpuLinear::input_gradient_offset() const {
  constexpr std::size_t kAlignment = 64;
  return (largest().forward.packed_bytes() + kAlignment - 1) / kAlignment * kAlignment;
}

void CpuLinear::pack(Stream&, const Tensor& w, void* packed) {
  TROUPE_ASSERT(w.dtype == DType::f32 && w.num_elements() == shape_.in * shape_.out);
  Products& products = products_.front();
  products.forward.pack(w.as<float>(), Layout::transposed, packed);
  products.input_gradient.pack(w.as<float>(), Layout::plain,
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
  products_for(rows_of(dx, dy, shape_.dtype))
      .input_gradient.run(dy.data, static_cast<const std::byte*>(packed) + input_gradient_offset(),
                          dx.data);
}

void CpuLinear::weight_gradient(Stream&, const Tensor& dy, const Tensor& x, const Tensor& dw,
                                Gradient gradient) {
  TROUPE_ASSERT(dw.dtype == DType::f32 && dw.num_elements() == shape_.in * shape_.out);
  Products& products = products_for(rows_of(x, dy, shape_.dtype));
  const bool first = gradient == Gradient::first;
  (first ? products.first_gradient : products.added_gradient).run(dy.data, x.data, dw.data);
}

std::int64_t CpuLinear::rows_of(const Tensor& x, const Tensor& y, DType y_dtype) const {
  const std::int64_t rows = x.num_elements() / shape_.in;
  TROUPE_ASSERT(x.dtype == shape_.dtype && x.num_elements() == rows * shape_.in);
  TROUPE_ASSERT(y.dtype == y_dtype && y.num_elements() == rows * shape_.out);
  TROUPE_ASSERT(allows_rows(shape_, rows));
  return rows;
}

CpuLinear::Products& CpuLinear::products_for(std::int64_t rows) {
  if (shape_.row_step == 0) return products_.front();
  return products_[static_cast<std::size_t>((shape_.rows - rows) / shape_.row_step)];
}

}  // namespace troupe::tensor
