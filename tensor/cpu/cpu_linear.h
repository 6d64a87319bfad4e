#pragma once

#include "tensor/cpu/product.h"
#include "tensor/linear.h"

namespace troupe::tensor {

/// Linear layers on oneDNN. A packed weight holds w^T for the forward product, then w for the input
/// gradient, each in oneDNN's own layout.
class CpuLinear final : public Linear {
 public:
  CpuLinear(const LinearShape& shape, int threads);

  std::size_t packed_bytes() const override;
  ScratchBytes scratch_bytes() const override;
  void set_scratch(const Scratch& scratch) override;
  void pack(Stream& stream, const Tensor& w, void* packed) override;
  Tensor packed_copy(void*) const override { return {}; }
  void forward(Stream& stream, const Tensor& x, const void* packed, const Tensor& y,
               const Tensor& residual) override;
  void input_gradient(Stream& stream, const Tensor& dy, const void* packed,
                      const Tensor& dx) override;
  void weight_gradient(Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& dw,
                       Gradient gradient) override;

 private:
  bool is_input(const Tensor& x) const;
  bool is_output(const Tensor& y, DType dtype) const;
  /// Where the second half of a packed weight starts.
  std::size_t input_gradient_offset() const;

  const LinearShape shape_;
  Product forward_;
  Product forward_residual_;
  Product input_gradient_;
  Product first_gradient_;
  Product added_gradient_;
};

}  // namespace troupe::tensor
