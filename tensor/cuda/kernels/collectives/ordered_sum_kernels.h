#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cuda/kernels/grid/grid_types.h"
#include "tensor/device/process_group.h"
#include "tensor/values/dtype.h"

namespace troupe::tensor::cuda {

/// The members' values of some elements, and where their reduction goes.
struct OrderedSum {
  DType dtype = DType::f32;      ///< of the values
  DType out_dtype = DType::f32;  ///< the same, or float32 of bfloat16
  Reduction reduction = Reduction::sum;
  int members = 1;
  int own = 0;  ///< the member whose values are `own_values`
  const void* own_values = nullptr;
  const void* received = nullptr;  ///< of member 0; the others follow
  std::int64_t stride = 0;         ///< bytes between two members in `received`
  void* out = nullptr;             ///< may be `own_values` if the types are the same
  std::int64_t count = 0;
};

/// out[i] = the reduction of the members' values, in ascending member order for every element, with
/// the bits of ordered_reduction() of the host: bfloat16 in float32, rounded once or not at all,
/// integers wrap around, an average is the sum over the number of members, a maximum is NaN where
/// any value is.
void launch_ordered_sum(const OrderedSum& sum, cudaStream_t stream);

}  // namespace troupe::tensor::cuda
