#pragma once

#include <optional>
#include <vector>

#include "tensor/cpu/products/product.h"
#include "tensor/device/linear.h"

namespace troupe::tensor {

/// Linear layers on oneDNN. A packed weight holds w^T for the forward product, then, if there are
/// gradients, w for the input gradient, each in oneDNN's own layout. Each number of rows that calls
/// may have has products of its own, prepared at construction.
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
  // packed_like: products whose layout of weights these read too; null: oneDNN chooses it.
  struct Gradients {
    Gradients(const LinearShape& shape, int threads, const Gradients* packed_like);
    Product input, first_weight, added_weight;
  };
  /// The products of one number of rows.
  struct Products {
    Products(const LinearShape& shape, int threads, const Products* packed_like);
    ScratchBytes scratch_bytes() const;
    void set_scratch(const Scratch& scratch);

    std::int64_t rows;
    Product forward, forward_residual;
    std::optional<Gradients> gradients;
  };

  /// The number of rows of a call. Asserts that x[rows, in] and y[rows, out] belong to one.
  std::int64_t rows_of(const Tensor& x, const Tensor& y, DType y_dtype) const;
  Products& products_for(std::int64_t rows);
  Gradients& gradients_for(std::int64_t rows);
  const Products& first() const { return products_.front(); }
  /// Where the second half of a packed weight starts.
  std::size_t input_gradient_offset() const;

  const LinearShape shape_;
  std::vector<Products> products_;  // the layer's own number of rows first
};

}  // namespace troupe::tensor
