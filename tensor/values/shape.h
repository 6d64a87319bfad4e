#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace troupe::tensor {

/// The shape of a row-major tensor of up to four dims. A value type without heap memory.
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  /// Throws Error{data} for more than kMaxRank dims, a negative dim or more elements than fit in 63
  /// bits.
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  std::int64_t operator[](int dim) const { return dims_[static_cast<std::size_t>(dim)]; }
  /// Product of the dims; 1 for rank 0.
  std::int64_t num_elements() const { return num_elements_; }
  std::span<const std::int64_t> dims() const {
    return {dims_.data(), static_cast<std::size_t>(rank_)};
  }
  bool operator==(const Shape&) const = default;

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
  std::int64_t num_elements_ = 1;
};

/// "[4, 256, 512]".
std::string to_string(const Shape& shape);

}  // namespace troupe::tensor
