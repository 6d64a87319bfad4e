#include "tensor/cuda/runtime/shared_device_memory.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "tensor/cuda/runtime/cuda_error.h"

namespace troupe::tensor::cuda {
namespace {

/// The driver's version that has had all of these functions, as they are called here.
constexpr unsigned kDriverVersion = 12000;

/// A function of the driver. The runtime, which is linked, does not have these. Null if the driver
/// lacks it.
template <typename Function>
Function* of_driver(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t code =
      cudaGetDriverEntryPointByVersion(name, &function, kDriverVersion, cudaEnableDefault, &found);
  const bool is_there = code == cudaSuccess && found == cudaDriverEntryPointSuccess;
  return is_there ? reinterpret_cast<Function*>(function) : nullptr;
}

/// Calls a function of the driver. False if it fails, or there is none.
template <typename Function, typename... Args>
bool call(const char* name, Args... args) {
  auto* const function = of_driver<Function>(name);
  return function && function(args...) == CUDA_SUCCESS;
}

CUmemAllocationProp properties(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
  return properties;
}

/// The bytes in whole units of the device's; 0 if the driver does not tell. All GPUs of a machine
/// that reach each other's memory have one unit.
std::size_t whole_units(int device, std::size_t bytes) {
  const CUmemAllocationProp wanted = properties(device);
  std::size_t unit = 0;
  if (!call<decltype(cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity", &unit,
                                                     &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM) ||
      unit == 0)
    return 0;
  return std::max(unit, (bytes + unit - 1) / unit * unit);
}

/// An allocation, which lives as long as it is mapped, or somebody has a descriptor of it.
class Allocation {
 public:
  explicit Allocation(CUmemGenericAllocationHandle handle) : handle_(handle) {}
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation() { call<decltype(cuMemRelease)>("cuMemRelease", handle_); }
  CUmemGenericAllocationHandle handle() const { return handle_; }

 private:
  CUmemGenericAllocationHandle handle_;
};

void free_addresses(CUdeviceptr address, std::size_t size) {
  call<decltype(cuMemAddressFree)>("cuMemAddressFree", address, size);
}

/// Of a context that failed, too: nobody could act on an error.
void unmap(void* data, std::size_t size) {
  const auto address = reinterpret_cast<CUdeviceptr>(data);
  (void)cudaDeviceSynchronize();  // as cudaFree does: an op may still use it
  call<decltype(cuMemUnmap)>("cuMemUnmap", address, size);
  free_addresses(address, size);
}

/// Addresses at which `device` reaches the allocation of so many bytes. Empty if it cannot.
Buffer addresses_of(int device, const Allocation& allocation, std::size_t size) {
  CUdeviceptr address = 0;
  if (!call<decltype(cuMemAddressReserve)>("cuMemAddressReserve", &address, size, 0, 0, 0))
    return {};
  if (!call<decltype(cuMemMap)>("cuMemMap", address, size, 0, allocation.handle(), 0)) {
    free_addresses(address, size);
    return {};
  }
  Buffer buffer(reinterpret_cast<void*>(address), size, MemoryKind::device, unmap);
  const CUmemAccessDesc access{.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                               .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  if (!call<decltype(cuMemSetAccess)>("cuMemSetAccess", address, size, &access, 1)) return {};
  return buffer;
}

}  // namespace

SharedMemory share_device_memory(int device, std::size_t bytes) {
  const std::size_t size = whole_units(device, bytes);
  const CUmemAllocationProp wanted = properties(device);
  CUmemGenericAllocationHandle handle{};
  if (size == 0 || !call<decltype(cuMemCreate)>("cuMemCreate", &handle, size, &wanted, 0))
    return {};
  const Allocation allocation(handle);
  Buffer memory = addresses_of(device, allocation, size);
  int descriptor = -1;
  if (!memory.data() || !call<decltype(cuMemExportToShareableHandle)>(
                            "cuMemExportToShareableHandle", &descriptor, handle,
                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))
    return {};
  SharedMemory shared(std::move(memory), descriptor);
  check(cudaMemset(shared.memory().data(), 0, size), "cudaMemset");
  check(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize");
  return shared;
}

Buffer map_device_memory(int device, int descriptor, std::size_t bytes) {
  const std::size_t size = whole_units(device, bytes);
  CUmemGenericAllocationHandle handle{};
  void* const named = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor));
  if (size == 0 || !call<decltype(cuMemImportFromShareableHandle)>(
                       "cuMemImportFromShareableHandle", &handle, named,
                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
    return {};
  return addresses_of(device, Allocation(handle), size);
}

}  // namespace troupe::tensor::cuda
