#include "tensor/process_group.h"

namespace troupe::tensor {

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return "all-reduce";
    case Operation::all_gather:
      return "all-gather";
    case Operation::reduce_scatter:
      return "reduce-scatter";
    case Operation::all_to_all:
      return "all-to-all";
    case Operation::broadcast:
      return "broadcast";
    case Operation::barrier:
      break;
  }
  return "barrier";
}

}  // namespace troupe::tensor
