#pragma once

#include <span>
#include <vector>

#include "tensor/device/device.h"
#include "tensor/device/process_group.h"

namespace troupe::tensor {

/// Gives the tensors that member 0 of a group has, as a microbatch of tokens, to all members: their
/// shapes, then all elements in one collective. Its memory grows with the largest data seen.
class DataBroadcast {
 public:
  /// Device and group outlive this object. Every collective runs on this group.
  DataBroadcast(Device& device, ProcessGroup& group) : device_(device), group_(group) {}

  /// On member 0 `data` holds `count` tensors of `dtype` in the device's memory; the others need
  /// none. Returns `count` tensors of the same shapes, which lie one after the other in memory of
  /// this object until the next call. They are filled once the ops have run that `stream` was
  /// given; the call waits for the shapes alone. If a tensor of member 0 has another dtype, all
  /// members throw the same Error{data}.
  std::span<const Tensor> run(Stream& stream, std::span<const Tensor> data, std::size_t count,
                              DType dtype);

 private:
  /// Member 0's shapes, on every member.
  Tensor exchange_shapes(Stream& stream, std::span<const Tensor> data, std::size_t count,
                         DType dtype);
  void lay_out(const Tensor& shapes, std::size_t count, DType dtype);
  Tensor memory(Buffer& buffer, MemoryKind kind, DType dtype, std::int64_t elements);

  Device& device_;
  ProcessGroup& group_;
  Buffer host_shapes_, shapes_, flat_;
  Tensor all_;                   // the elements of all tensors, in flat_
  std::vector<Tensor> tensors_;  // views of all_
};

}  // namespace troupe::tensor
