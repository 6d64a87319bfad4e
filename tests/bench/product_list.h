#pragma once

#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

namespace troupe::bench {

/// One matrix, or a batch of matrices of equal shape, inside a buffer that a ProductList owns.
/// Strides are in elements.
struct Matrices {
  void* data = nullptr;
  dnnl::memory::data_type type = dnnl::memory::data_type::f32;
  dnnl::memory::dims dims;
  dnnl::memory::dims strides;

  Matrices transposed() const;
  /// The `count` rows of each matrix that begin at row `first`.
  Matrices rows(std::int64_t first, std::int64_t count) const;
};

/// Matrix products by oneDNN alone, in the order in which they were added. All memory is taken
/// before the first run.
class ProductList {
 public:
  using DataType = dnnl::memory::data_type;
  enum class Write { overwrite, add };

  /// Allocates a buffer with small random values.
  Matrices allocate(DataType type, dnnl::memory::dims dims);

  /// Adds the product c = a b, or c += a b.
  void multiply(const Matrices& a, const Matrices& b, const Matrices& c,
                Write write = Write::overwrite);
  /// Adds the product c = a w, where w is packed beforehand into a buffer of its own, in the layout
  /// that oneDNN chooses.
  void multiply_packed(const Matrices& a, const Matrices& w, const Matrices& c);

  /// Runs all products once.
  void run();
  double gflop() const { return flop_ * 1e-9; }

 private:
  struct Product {
    dnnl::matmul primitive;
    std::unordered_map<int, dnnl::memory> arguments;
  };

  dnnl::memory own(const dnnl::memory::desc& description);
  void append(const dnnl::matmul::primitive_desc& product, const Matrices& a, const dnnl::memory& b,
              const Matrices& c);

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::uint32_t random_state_ = 1;
  std::vector<dnnl::memory> buffers_;
  std::vector<Product> products_;
  dnnl::memory scratchpad_;
  double flop_ = 0;
};

}  // namespace troupe::bench
