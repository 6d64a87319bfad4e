#include "tensor/cuda/kernels/attention/document_groups.h"

#include "tensor/cuda/kernels/grid/elementwise.h"

namespace troupe::tensor::cuda {
namespace {

/// An item is one of the B + 1 bounds of a group.
__global__ void __launch_bounds__(kElementThreads)
    document_groups_kernel(const DocumentGroups x, std::int64_t items) {
  for_each_item(items, [&](std::int64_t item) {
    const std::int64_t group = item / (x.group + 1), place = item % (x.group + 1);
    const std::int64_t document = group * x.group + place, to = group * x.stride + place;
    const bool is_there = document < x.documents;
    const std::int64_t start = x.starts[is_there ? document : x.documents];
    for (int i = 0; i < 3; ++i) x.offsets[i][to] = start * x.row_elements[i];
    if (place < x.group)
      x.lengths[to] = is_there ? x.starts[document + 1] - static_cast<std::int32_t>(start) : 0;
  });
}

}  // namespace

void launch_document_groups(const DocumentGroups& x, cudaStream_t stream) {
  const std::int64_t items = std::int64_t{x.groups()} * (x.group + 1);
  launch(document_groups_kernel, blocks_for(items), kElementThreads, 0, stream, x, items);
}

}  // namespace troupe::tensor::cuda
