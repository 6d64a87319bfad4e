#pragma once

#include <cstddef>
#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "tensor/values/dtype.h"

namespace troupe::tensor {

/// How a matrix of a product lies in memory: row-major, as the row-major transpose, or in the
/// layout that oneDNN chooses (only the right factor, filled by Product::pack).
enum class Layout { plain, transposed, packed };

/// What is added to a product: nothing, what c held before, or another matrix of c's shape and
/// type.
enum class Addend { none, destination, matrix };

/// c[m, n] = a[m, k] * b[k, n] + addend.
struct ProductShape {
  std::int64_t m = 0, k = 0, n = 0;
  DType input = DType::f32;   // of a and b
  DType output = DType::f32;  // of c and the addend
  Layout a = Layout::plain;
  Layout b = Layout::plain;
  Addend addend = Addend::none;
};

/// The bytes rounded up to whole cache lines.
constexpr std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Whether products of bfloat16 matrices are computed as float32 ones on this processor. Without
/// AVX-512 oneDNN has no others. Intel's processors without AMX have instructions for bfloat16, but
/// oneDNN is nearly twice as fast with float32. Products of two bfloat16 numbers are exact in
/// float32 either way. The rule depends on the processor and never on a measurement, so that runs
/// repeat.
bool multiplies_bf16_as_f32();

/// One oneDNN matmul primitive with its arguments, for a number of threads. Made once per shape; a
/// call only sets pointers, and converts if bfloat16 is multiplied as float32.
class Product {
 public:
  Product(const ProductShape& shape, int threads);
  /// A product whose right factor is packed in the layout of `packed_like`.
  Product(const ProductShape& shape, int threads, const Product& packed_like);
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;
  Product(Product&&) = default;

  /// Bytes that set_scratch() needs. Products that never run at the same time may share it.
  std::size_t scratch_bytes() const;
  void set_scratch(void* data);
  std::size_t packed_bytes() const { return b_.get_desc().get_size(); }

  /// Converts b, row-major or transposed float32, to the packed layout and the input dtype's
  /// values.
  void pack(const float* b, Layout layout, void* packed);
  void run(const void* a, const void* b, void* c, const void* addend = nullptr);

 private:
  Product(const ProductShape& shape, int threads, const dnnl::memory::desc& b);
  dnnl::memory unbound(const dnnl::memory::desc& description) const;
  void run_widened(const void* a, const void* b, void* c, const void* addend);
  /// Elements of the float32 copies in the scratch memory; 0 if the caller's memory serves.
  struct WideSizes {
    std::int64_t a = 0, b = 0, c = 0;
  };
  WideSizes wide_sizes() const;

  ProductShape shape_;
  int threads_;
  bool widened_;  ///< bfloat16 outside, float32 inside
  float* wide_ = nullptr;
  dnnl::engine engine_;  // declared before the members that point to it
  dnnl::stream stream_;
  dnnl::matmul matmul_;
  dnnl::memory a_, b_, c_, addend_, scratch_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

}  // namespace troupe::tensor
