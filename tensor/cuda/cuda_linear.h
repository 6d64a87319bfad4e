#pragma once

#include <array>

#include "tensor/cuda/cuda_product.h"
#include "tensor/linear.h"

namespace troupe::tensor::cuda {

/// Linear layers on cuBLASLt. A packed weight is w[out, in] in the layer's dtype: one copy serves
/// all products.
class CudaLinear final : public Linear {
 public:
  CudaLinear(const ProductLibrary& library, const LinearShape& shape);

  std::size_t packed_bytes() const override;
  ScratchBytes scratch_bytes() const override;
  void set_scratch(const Scratch& scratch) override { scratch_ = scratch; }
  void pack(Stream& stream, const Tensor& w, void* packed) override;
  Tensor packed_copy(void* packed) const override;
  void forward(Stream& stream, const Tensor& x, const void* packed, const Tensor& y,
               const Tensor& residual) override;
  void input_gradient(Stream& stream, const Tensor& dy, const void* packed,
                      const Tensor& dx) override;
  void weight_gradient(Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& dw,
                       Gradient gradient) override;

 private:
  /// The factors of a product, by what they are.
  using Operands = std::array<const void*, 3>;

  void run(CudaProduct& product, Stream& stream, const Operands& operands, const void* addend,
           void* result, void* workspace);

  const LinearShape shape_;
  CudaProduct forward_;
  CudaProduct input_gradient_;
  CudaProduct weight_gradient_;
  Scratch scratch_;
};

}  // namespace troupe::tensor::cuda
