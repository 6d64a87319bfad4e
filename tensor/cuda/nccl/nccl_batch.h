#pragma once

#include <cstddef>

#include "tensor/cuda/nccl/nccl_library.h"
#include "tensor/device/process_group.h"

namespace troupe::tensor::cuda {

/// Calls of NCCL on one communicator and one stream that are queued as one group. The first that is
/// refused is kept, and no further one made.
class NcclBatch {
 public:
  NcclBatch(const NcclLibrary& library, ncclComm_t communicator, cudaStream_t stream)
      : library_(library), communicator_(communicator), stream_(stream) {}

  void send(const void* data, std::size_t bytes, int to);
  void receive(void* data, std::size_t bytes, int from);
  /// Reduces `elements` of each member, in place.
  void all_reduce(void* data, std::size_t elements, DType dtype, Reduction reduction);
  void broadcast(void* data, std::size_t bytes, int root);
  /// Gathers `bytes` of each member.
  void all_gather(const void* in, void* out, std::size_t bytes);
  /// Gives each member `elements` of the result.
  void reduce_scatter(const void* in, void* out, std::size_t elements, DType dtype,
                      Reduction reduction);

  ncclResult_t result() const { return result_; }

 private:
  template <typename Call, typename... Arguments>
  void make(Call call, Arguments... arguments) {
    if (result_ == ncclSuccess || result_ == ncclInProgress)
      result_ = call(arguments..., communicator_, stream_);
  }

  const NcclLibrary& library_;
  const ncclComm_t communicator_;
  const cudaStream_t stream_;
  ncclResult_t result_ = ncclSuccess;
};

}  // namespace troupe::tensor::cuda
