#pragma once

#include <cstddef>
#include <memory>

#include "tensor/cuda/runtime/kernel_stream.h"

namespace troupe::tensor::cuda {

/// Makes `index` the calling thread's device: CUDA keeps one per thread.
void use_device(int index);

/// A stream of CUDA that nothing orders with others, not even the legacy stream.
class StreamHandle {
 public:
  StreamHandle();
  StreamHandle(const StreamHandle&) = delete;
  StreamHandle& operator=(const StreamHandle&) = delete;
  ~StreamHandle();

  cudaStream_t get() const { return handle_; }

 private:
  cudaStream_t handle_ = nullptr;
};

/// Ops of one device in order. Beside it runs a stream of host calls, which wait for marks of this
/// one, so that no call of the host holds up the ops.
class CudaStream final : public KernelStream {
 public:
  /// `index` is the device's.
  CudaStream(Device& device, int index);
  ~CudaStream() override;

  Device& device() override { return device_; }
  void synchronize() override;
  /// Also makes the stream's device the calling thread's.
  cudaStream_t handle() const override;
  void* scratch(std::size_t bytes) override;
  const std::shared_ptr<StreamHandle>& host_calls() const { return host_calls_; }

 private:
  Device& device_;
  const int index_;
  StreamHandle handle_;
  const std::shared_ptr<StreamHandle> host_calls_;  // shared with events, which may outlive this
  Buffer scratch_;
};

}  // namespace troupe::tensor::cuda
