#include "stages/decoder/layers/arena.h"

#include <algorithm>

namespace troupe::stages {

void* Arena::take_bytes(std::size_t bytes) {
  std::byte* const data = memory_ ? memory_ + position_ : nullptr;
  position_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  bytes_ = std::max(bytes_, position_);
  return data;
}

tensor::Tensor Arena::take(tensor::DType dtype, tensor::Shape shape) {
  const std::size_t elements = static_cast<std::size_t>(shape.num_elements());
  return {take_bytes(elements * size_of(dtype)), dtype, shape};
}

}  // namespace troupe::stages
