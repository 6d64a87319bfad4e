#include "tensor/cuda/runtime/cuda_stream.h"

#include <algorithm>

#include "tensor/cuda/runtime/cuda_error.h"

namespace troupe::tensor::cuda {

void use_device(int index) {
  check(cudaSetDevice(index), "cudaSetDevice");
}

StreamHandle::StreamHandle() {
  check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

StreamHandle::~StreamHandle() {
  (void)cudaStreamDestroy(handle_);  // of a context that failed, too: nobody could act on an error
}

namespace {

constexpr std::size_t kLeastScratch = std::size_t{1} << 20;

}  // namespace

CudaStream::CudaStream(Device& device, int index)
    : device_(device), index_(index), host_calls_(std::make_shared<StreamHandle>()) {}

CudaStream::~CudaStream() {
  (void)cudaStreamSynchronize(handle_.get());  // ops may still work in scratch_
}

void CudaStream::synchronize() {
  check(cudaStreamSynchronize(handle()), "cudaStreamSynchronize");
}

cudaStream_t CudaStream::handle() const {
  use_device(index_);
  return handle_.get();
}

void* CudaStream::scratch(std::size_t bytes) {
  if (bytes > scratch_.bytes()) {
    synchronize();  // ops that were queued may still use the old memory
    scratch_ = Buffer();
    scratch_ = device_.allocate(std::max(bytes, kLeastScratch), MemoryKind::device);
  }
  return scratch_.data();
}

}  // namespace troupe::tensor::cuda
