#pragma once

#include <type_traits>

#include "tensor/cuda/kernels/grid/grid.h"
#include "tensor/values/dtype.h"

namespace troupe::tensor::cuda {

template <typename T>
struct Type {
  using type = T;
};

/// Calls body(Type<T>()) with the kernels' type of an act tensor's elements.
template <typename Body>
void with_act_type(DType dtype, const Body& body) {
  if (dtype == DType::bf16) {
    body(Type<__nv_bfloat16>());
  } else {
    body(Type<float>());
  }
}

/// Calls body with std::true_type or std::false_type.
template <typename Body>
void with_constant(bool flag, const Body& body) {
  if (flag) {
    body(std::true_type());
  } else {
    body(std::false_type());
  }
}

}  // namespace troupe::tensor::cuda
