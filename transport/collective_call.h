#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "tensor/process_group.h"
#include "transport/collective.h"

namespace troupe::transport {

/// A call of one of ProcessGroup's collectives, as a value. Owns nothing.
struct CollectiveCall {
  Operation operation = Operation::barrier;
  tensor::Reduction reduction = tensor::Reduction::sum;
  int root = 0;
  std::span<const tensor::Tensor> in;
  std::span<const tensor::Tensor> out;  ///< with the input, if the operation is in place
  /// Elements for each member, where the collective is uneven; empty: as many for each.
  std::span<const std::int64_t> send_counts, receive_counts;
};

/// Makes the call.
std::unique_ptr<tensor::Work> start_collective(tensor::ProcessGroup& group, tensor::Stream& stream,
                                               const CollectiveCall& call);

}  // namespace troupe::transport
