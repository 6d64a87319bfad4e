#include "tensor/cuda/nccl/nccl_batch.h"

namespace troupe::tensor::cuda {
namespace {

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f64:
      return ncclFloat64;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      break;
  }
  return ncclInt64;
}

ncclRedOp_t operation_of(Reduction reduction) {
  if (reduction == Reduction::max) return ncclMax;
  return reduction == Reduction::average ? ncclAvg : ncclSum;
}

}  // namespace

void NcclBatch::send(const void* data, std::size_t bytes, int to) {
  make(library_.send, data, bytes, ncclUint8, to);
}

void NcclBatch::receive(void* data, std::size_t bytes, int from) {
  make(library_.recv, data, bytes, ncclUint8, from);
}

void NcclBatch::all_reduce(void* data, std::size_t elements, DType dtype, Reduction reduction) {
  make(library_.all_reduce, data, data, elements, type_of(dtype), operation_of(reduction));
}

void NcclBatch::broadcast(void* data, std::size_t bytes, int root) {
  make(library_.broadcast, data, data, bytes, ncclUint8, root);
}

void NcclBatch::all_gather(const void* in, void* out, std::size_t bytes) {
  make(library_.all_gather, in, out, bytes, ncclUint8);
}

void NcclBatch::reduce_scatter(const void* in, void* out, std::size_t elements, DType dtype,
                               Reduction reduction) {
  make(library_.reduce_scatter, in, out, elements, type_of(dtype), operation_of(reduction));
}

}  // namespace troupe::tensor::cuda
