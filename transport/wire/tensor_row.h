#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "tensor/values/tensor.h"

namespace troupe::transport {

/// Elements [begin, begin + size) of a row.
struct ElementRange {
  std::size_t begin = 0;
  std::size_t size = 0;
};

/// Tensors of one dtype in host memory, read as one row of elements: all of the first tensor, then
/// all of the second, and so on. Owns no element.
class TensorRow {
 public:
  /// Allocates only if the row never had as many tensors.
  void assign(std::span<const tensor::Tensor> tensors);
  std::size_t num_elements() const { return num_elements_; }
  std::size_t element_bytes() const { return element_bytes_; }

  /// Calls visit(data, offset, count) for the share that each tensor has in the piece, in order:
  /// `count` elements at `data`, the first of which is element `offset` of the piece.
  template <typename Visit>
  void visit(ElementRange piece, Visit&& visit) const {
    std::size_t first = 0;
    for (const tensor::Tensor& tensor : tensors_) {
      const auto size = static_cast<std::size_t>(tensor.num_elements());
      const std::size_t begin = std::max(first, piece.begin);
      const std::size_t end = std::min(first + size, piece.begin + piece.size);
      if (begin < end)
        visit(tensor.as<std::byte>() + (begin - first) * element_bytes_, begin - piece.begin,
              end - begin);
      first += size;
    }
  }
  void read(ElementRange piece, std::byte* to) const;
  void write(ElementRange piece, const std::byte* from) const;

 private:
  std::vector<tensor::Tensor> tensors_;
  std::size_t num_elements_ = 0;
  std::size_t element_bytes_ = 1;
};

}  // namespace troupe::transport
