#pragma once

#include <cstddef>

#include "tensor/values/dtype.h"
#include "tensor/values/shape.h"

namespace troupe::tensor {

/// A typed, contiguous, row-major view of memory that it does not own. Copying it copies the view.
/// `data` may be device memory: only code under cpu/ may dereference it.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;

  explicit operator bool() const { return data != nullptr; }
  std::int64_t num_elements() const { return shape.num_elements(); }
  std::size_t num_bytes() const {
    return static_cast<std::size_t>(num_elements()) * size_of(dtype);
  }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

}  // namespace troupe::tensor
