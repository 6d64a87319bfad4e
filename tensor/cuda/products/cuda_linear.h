#pragma once

#include <array>
#include <deque>
#include <optional>

#include "tensor/cuda/products/cuda_product.h"
#include "tensor/device/linear.h"

namespace troupe::tensor::cuda {

/// Linear layers on cuBLASLt. A packed weight is w[out, in] in the layer's dtype: one copy serves
/// all products. Each number of rows that calls may have has products of its own.
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

  /// The products of one number of rows.
  struct Products {
    Products(const ProductLibrary& library, const LinearShape& shape);
    std::int64_t rows;
    CudaProduct forward;
    std::optional<CudaProduct> input_gradient, weight_gradient;
  };

  /// The products for the rows of x[rows, in] and y[rows, out]. Asserts that they fit the shape.
  Products& products_for(const Tensor& x, const Tensor& y, DType y_dtype);
  void run(CudaProduct& product, Stream& stream, const Operands& operands, const void* addend,
           void* result, void* workspace);

  const LinearShape shape_;
  std::deque<Products> products_;
  Scratch scratch_;
};

}  // namespace troupe::tensor::cuda
