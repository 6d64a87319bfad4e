#include "transport/wire/tensor_row.h"

#include <cstring>

#include "tensor/errors/error.h"

namespace troupe::transport {

void TensorRow::assign(std::span<const tensor::Tensor> tensors) {
  tensors_.assign(tensors.begin(), tensors.end());
  num_elements_ = 0;
  for (const tensor::Tensor& tensor : tensors) {
    TROUPE_ASSERT(tensor.dtype == tensors.front().dtype);
    num_elements_ += static_cast<std::size_t>(tensor.num_elements());
  }
  element_bytes_ = tensors.empty() ? 1 : tensor::size_of(tensors.front().dtype);
}

void TensorRow::read(ElementRange piece, std::byte* to) const {
  visit(piece, [&](const std::byte* data, std::size_t offset, std::size_t count) {
    std::memcpy(to + offset * element_bytes_, data, count * element_bytes_);
  });
}

void TensorRow::write(ElementRange piece, const std::byte* from) const {
  visit(piece, [&](std::byte* data, std::size_t offset, std::size_t count) {
    std::memcpy(data, from + offset * element_bytes_, count * element_bytes_);
  });
}

}  // namespace troupe::transport
