#pragma once

#include <cstdint>

#include "tensor/cuda/kernels/grid/grid_types.h"

namespace troupe::tensor::cuda {

/// Documents in groups of B, in their order, the last group filled up with empty ones. Of each
/// group the length of each document, and the place in elements at which each document begins in
/// tensors whose rows have so many elements, and the last one ends.
struct DocumentGroups {
  const std::int32_t* starts = nullptr;  ///< the row of each document, and the end of the last one
  int documents = 0;
  int group = 1;                      ///< B
  int stride = 0;                     ///< from a group to the next one, at least B + 1
  std::int64_t row_elements[3] = {};  ///< of the tensors that offsets are for
  std::int32_t* lengths = nullptr;    ///< [groups, stride], of which B are filled
  std::int64_t* offsets[3] = {};      ///< [groups, stride] each, of which B + 1 are filled

  int groups() const { return (documents + group - 1) / group; }
};
/// Fills lengths and offsets.
void launch_document_groups(const DocumentGroups& groups, cudaStream_t stream);

}  // namespace troupe::tensor::cuda
