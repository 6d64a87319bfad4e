#include "tests/support/gpu_of_others.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <utility>

#include "tensor/cuda/runtime/cuda_error.h"
#include "tensor/errors/error.h"

namespace troupe::test {
namespace {

constexpr std::size_t kTotal = std::size_t{64} << 30;
constexpr int kRefusals = 3;

/// Behind CUDA's functions, which have no argument that names one.
class Gpu {
 public:
  static Gpu& get() {
    static Gpu gpu;
    return gpu;
  }
  void begin(const std::string& file) { file_ = file; }
  bool is_full() const { return !file_.empty() && std::filesystem::exists(file_); }
  bool gives() {
    const std::lock_guard lock(mutex_);
    if (!is_full()) return true;
    if (++refusals_ == kRefusals) std::filesystem::remove(file_);
    return false;
  }

 private:
  std::string file_;  ///< written before other threads ask
  std::mutex mutex_;  // of what follows
  int refusals_ = 0;
};

}  // namespace

GpuOfOthers::GpuOfOthers(const std::string& file, tensor::cuda::GpuMemory::Tell tell) {
  Gpu::get().begin(file);
  if (Gpu::get().is_full()) memory_.emplace("the emulated GPU", std::move(tell));
}

void GpuOfOthers::wait_for_room(std::size_t bytes) {
  if (memory_) std::free(memory_->allocate(bytes));
}

}  // namespace troupe::test

extern "C" {

cudaError_t cudaMalloc(void** data, std::size_t) {
  if (!troupe::test::Gpu::get().gives()) return cudaErrorMemoryAllocation;
  *data = std::malloc(1);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = troupe::test::kTotal;
  *free = troupe::test::Gpu::get().is_full() ? 0 : *total;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
}

namespace troupe::tensor::cuda {

void check(cudaError_t code, const char* call) {
  if (code != cudaSuccess) throw Error(ErrorKind::internal, std::string(call) + " failed");
}

}  // namespace troupe::tensor::cuda
