#include "tensor/cuda/cuda_device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tensor/cuda/attention/cudnn_attention.h"
#include "tensor/cuda/attention/cudnn_document_attention.h"
#include "tensor/cuda/attention/kernel_cached_attention.h"
#include "tensor/cuda/peers/kernel_one_shot_norm.h"
#include "tensor/cuda/products/cuda_linear.h"
#include "tensor/cuda/runtime/cuda_error.h"
#include "tensor/cuda/runtime/cuda_stream.h"
#include "tensor/cuda/runtime/gpus.h"
#include "tensor/cuda/runtime/shared_device_memory.h"
#include "tensor/device/host_memory.h"
#include "tensor/errors/error.h"

namespace troupe::tensor::cuda {
namespace {

constexpr double kMebi = 1 << 20;
/// A communicator ends in tenths of a second. One that has not by then never does.
constexpr std::chrono::seconds kMostEnd{10};

/// The launcher replaces a worker that ends.
void end_process() {
  std::fputs("NCCL has not ended its communicators within 10 s: this process ends\n", stderr);
  std::_Exit(static_cast<int>(ErrorKind::retry));
}

void free_device(void* data, std::size_t) {
  (void)cudaFree(data);  // of a context that failed, too: nobody could act on an error
}

void free_pinned(void* data, std::size_t) {
  (void)cudaFreeHost(data);
}

/// Pages are pinned as a whole.
std::byte* page_of(void* data) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(data) / page * page);
}

std::string product_key(const cudaDeviceProp& gpu) {
  return fmt::format("cuBLASLt {}, {}, {} multiprocessors", cublasLtGetVersion(), gpu.name,
                     gpu.multiProcessorCount);
}

}  // namespace

CudaDevice::CudaDevice(const DeviceSpec& spec, const CudnnPlans::Tell& tell)
    : spec_(spec), plans_(spec.deterministic, tell) {
  const cudaDeviceProp gpu = properties_of_usable_gpu(spec.index);
  name_ = gpu.name;
  static_assert(sizeof hardware_ == sizeof gpu.uuid);
  std::memcpy(hardware_.data(), &gpu.uuid, sizeof hardware_);
  check(cudaInitDevice(spec.index, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid),
        "cudaInitDevice");
  use_device(spec.index);
  memory_.emplace(fmt::format("GPU {} ({})", spec.index, name_), tell);
  clock_ = std::make_unique<DeviceClock>();
  preparation_ = std::make_unique<CudaStream>(*this, spec_.index);
  check(cublasLtCreate(&products_.handle), "cublasLtCreate");
  products_.tf32 = spec.tf32;
  products_.key = product_key(gpu);
  if (!spec.tuning.empty()) products_.store = &store_.emplace(spec.tuning);
}

CudaDevice::~CudaDevice() {
  (void)cublasLtDestroy(products_.handle);
}

Buffer CudaDevice::allocate(std::size_t bytes, MemoryKind kind) {
  if (kind == MemoryKind::host) return allocate_host(bytes, kind);
  use_device(spec_.index);
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  if (kind == MemoryKind::pinned) {
    Buffer buffer(pin(size), bytes, kind, free_pinned);
    std::memset(buffer.data(), 0, size);
    return buffer;
  }
  Buffer buffer(memory_->allocate(size), bytes, kind, free_device);
  // Our streams do not wait for the legacy one.
  check(cudaMemset(buffer.data(), 0, size), "cudaMemset");
  check(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize");
  return buffer;
}

void* CudaDevice::pin(std::size_t bytes) const {
  void* data = nullptr;
  const cudaError_t code = cudaHostAlloc(&data, bytes, cudaHostAllocPortable);
  if (code == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // it does not stick
    throw Error(ErrorKind::internal,
                fmt::format("cannot pin {:.1f} MiB of host memory for GPU {} ({})",
                            static_cast<double>(bytes) / kMebi, spec_.index, name_));
  }
  check(code, "cudaHostAlloc");
  return data;
}

SharedMemory CudaDevice::share(std::size_t bytes) {
  use_device(spec_.index);
  return share_device_memory(spec_.index, bytes);
}

Buffer CudaDevice::map(int descriptor, std::size_t bytes) {
  use_device(spec_.index);
  return map_device_memory(spec_.index, descriptor, bytes);
}

bool CudaDevice::pin(void* data, std::size_t bytes) {
  use_device(spec_.index);
  auto* const begin = page_of(data);
  const auto size = static_cast<std::size_t>(static_cast<std::byte*>(data) + bytes - begin);
  const cudaError_t code = cudaHostRegister(begin, size, cudaHostRegisterPortable);
  if (code != cudaSuccess) (void)cudaGetLastError();  // it does not stick
  return code == cudaSuccess;
}

void CudaDevice::unpin(void* data) {
  (void)cudaSetDevice(spec_.index);
  // Of a context that failed, too: nobody could act on an error.
  (void)cudaHostUnregister(page_of(data));
}

std::unique_ptr<Stream> CudaDevice::make_stream() {
  use_device(spec_.index);
  return std::make_unique<CudaStream>(*this, spec_.index);
}

std::unique_ptr<Event> CudaDevice::make_event() {
  use_device(spec_.index);
  return std::make_unique<CudaEvent>(spec_.index, nullptr);
}

std::unique_ptr<Event> CudaDevice::make_timed_event() {
  use_device(spec_.index);
  return std::make_unique<CudaEvent>(spec_.index, clock_.get());
}

DeviceMemory CudaDevice::memory() const {
  use_device(spec_.index);
  return memory_of_gpu();
}

std::unique_ptr<Linear> CudaDevice::make_linear(const LinearShape& shape) {
  use_device(spec_.index);
  return std::make_unique<CudaLinear>(products_, shape);
}

std::unique_ptr<Attention> CudaDevice::make_attention(const AttentionShape& shape) {
  use_device(spec_.index);
  if (shape.documents) {
    if (auto documents = CudnnDocumentAttention::make(shape, plans_, *preparation_))
      return documents;
  } else if (auto attention = CudnnAttention::make(shape, plans_, *preparation_)) {
    return attention;
  }
  return std::make_unique<KernelAttention>(shape, *preparation_);
}

std::unique_ptr<CachedAttention> CudaDevice::make_cached_attention(
    const CachedAttentionShape& shape) {
  return std::make_unique<KernelCachedAttention>(shape);
}

/// NCCL is opened when the first group is asked for: a run on one GPU needs none.
MadeGroup CudaDevice::make_group(const GroupSpec& spec, ProcessGroup& hosts) {
  use_device(spec_.index);
  if (!groups_)
    groups_ = make_nccl_groups(*this, LibrarySearch::of_this_process(),
                               {.begin = [index = spec_.index] { use_device(index); },
                                .deadline = kMostEnd,
                                .on_overdue = end_process});
  return groups_->make_group(spec, hosts);
}

std::unique_ptr<OneShotNorm> CudaDevice::make_one_shot_norm(PeerMemory memory) {
  return std::make_unique<KernelOneShotNorm>(*this, std::move(memory));
}

}  // namespace troupe::tensor::cuda
