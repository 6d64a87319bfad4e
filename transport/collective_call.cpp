#include "transport/collective_call.h"

namespace troupe::transport {

std::unique_ptr<tensor::Work> start_collective(tensor::ProcessGroup& group, tensor::Stream& stream,
                                               const CollectiveCall& call) {
  switch (call.operation) {
    case Operation::all_reduce:
      return group.all_reduce_many(stream, call.out, call.reduction);
    case Operation::all_gather:
      if (call.receive_counts.empty()) return group.all_gather(stream, call.in[0], call.out[0]);
      return group.all_gather_uneven(stream, call.in[0], call.out[0], call.receive_counts);
    case Operation::reduce_scatter:
      if (call.send_counts.empty())
        return group.reduce_scatter(stream, call.in[0], call.out[0], call.reduction);
      return group.reduce_scatter_uneven(stream, call.in[0], call.out[0], call.send_counts,
                                         call.reduction);
    case Operation::all_to_all:
      if (call.send_counts.empty()) return group.all_to_all(stream, call.in[0], call.out[0]);
      return group.all_to_all_uneven(stream, call.in[0], call.out[0], call.send_counts,
                                     call.receive_counts);
    case Operation::broadcast:
      return group.broadcast(stream, call.out[0], call.root);
    case Operation::barrier:
      break;
  }
  return group.barrier(stream);
}

}  // namespace troupe::transport
