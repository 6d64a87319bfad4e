#pragma once

#include <algorithm>
#include <cstddef>

#include "tensor/values/tensor.h"

namespace troupe::stages {

/// Lays tensors out in one piece of memory, each on a 256-byte boundary, which cuBLASLt's fastest
/// products need. Without memory it only counts, and its tensors are empty: the same function first
/// tells the size that is needed, and then divides the memory.
class Arena {
 public:
  static constexpr std::size_t kAlignment = 256;

  /// Bytes of whole pieces of the alignment.
  static constexpr std::size_t whole(std::size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  Arena() = default;
  explicit Arena(void* memory) : memory_(static_cast<std::byte*>(memory)) {}

  void* take_bytes(std::size_t bytes) {
    std::byte* const data = memory_ ? memory_ + position_ : nullptr;
    position_ += whole(bytes);
    bytes_ = std::max(bytes_, position_);
    return data;
  }
  tensor::Tensor take(tensor::DType dtype, tensor::Shape shape) {
    const std::size_t elements = static_cast<std::size_t>(shape.num_elements());
    return {take_bytes(elements * size_of(dtype)), dtype, shape};
  }

  /// Lets what `first` takes and what `second` takes lie one over the other in the same memory.
  template <typename First, typename Second>
  void overlay(First&& first, Second&& second) {
    const std::size_t start = position_;
    first();
    const std::size_t end = position_;
    position_ = start;
    second();
    position_ = std::max(position_, end);
  }
  /// Size of the memory that all tensors taken so far need.
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* memory_ = nullptr;
  std::size_t position_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace troupe::stages
