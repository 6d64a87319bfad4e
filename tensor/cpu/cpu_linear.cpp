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

CpuLinear::CpuLinear(const LinearShape& shape, int threads)
    : shape_(checked(shape)),
      forward_(forward_of(shape, Addend::none), threads),
      forward_residual_(forward_of(shape, Addend::matrix), threads, forward_),
      input_gradient_(input_gradient_of(shape), threads),
      first_gradient_(weight_gradient_of(shape, Addend::none), threads),
      added_gradient_(weight_gradient_of(shape, Addend::destination), threads) {}

ScratchBytes CpuLinear::scratch_bytes() const {
  return {.forward = std::max(forward_.scratch_bytes(), forward_residual_.scratch_bytes()),
          .backward = std::max({input_gradient_.scratch_bytes(), first_gradient_.scratch_bytes(),
                                added_gradient_.scratch_bytes()})};
}

void CpuLinear::set_scratch(const Scratch& scratch) {
  for (Product* product : {&forward_, &forward_residual_}) product->set_scratch(scratch.forward);
  if (!scratch.backward) return;
  for (Product* product : {&input_gradient_, &first_gradient_, &added_gradient_})
    product->set_scratch(scratch.backward);
}

std::size_t CpuLinear::packed_bytes() const {
  return input_gradient_offset() + input_gradient_.packed_bytes();
}

std::size_t CpuLinear::input_gradient_offset() const {
  constexpr std::size_t kAlignment = 64;
  return (forward_.packed_bytes() + kAlignment - 1) / kAlignment * kAlignment;
}

void CpuLinear::pack(Stream&, const Tensor& w, void* packed) {
  TROUPE_ASSERT(w.dtype == DType::f32 && w.num_elements() == shape_.in * shape_.out);
  forward_.pack(w.as<float>(), Layout::transposed, packed);
  input_gradient_.pack(w.as<float>(), Layout::plain,
                       static_cast<std::byte*>(packed) + input_gradient_offset());
}

void CpuLinear::forward(Stream&, const Tensor& x, const void* packed, const Tensor& y,
                        const Tensor& residual) {
  TROUPE_ASSERT(is_input(x) && is_output(y, shape_.output_dtype));
  TROUPE_ASSERT(!residual || is_output(residual, shape_.output_dtype));
  Product& product = residual ? forward_residual_ : forward_;
  product.run(x.data, packed, y.data, residual.data);
}

void CpuLinear::input_gradient(Stream&, const Tensor& dy, const void* packed, const Tensor& dx) {
  TROUPE_ASSERT(is_output(dy, shape_.dtype) && is_input(dx));
  input_gradient_.run(dy.data, static_cast<const std::byte*>(packed) + input_gradient_offset(),
                      dx.data);
}

void CpuLinear::weight_gradient(Stream&, const Tensor& dy, const Tensor& x, const Tensor& dw,
                                Gradient gradient) {
  TROUPE_ASSERT(is_output(dy, shape_.dtype) && is_input(x));
  TROUPE_ASSERT(dw.dtype == DType::f32 && dw.num_elements() == shape_.in * shape_.out);
  Product& product = gradient == Gradient::first ? first_gradient_ : added_gradient_;
  product.run(dy.data, x.data, dw.data);
}

bool CpuLinear::is_input(const Tensor& x) const {
  return x.dtype == shape_.dtype && x.num_elements() == shape_.rows * shape_.in;
}

bool CpuLinear::is_output(const Tensor& y, DType dtype) const {
  return y.dtype == dtype && y.num_elements() == shape_.rows * shape_.out;
}

}  // namespace troupe::tensor
