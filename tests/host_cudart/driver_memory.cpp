#include "tests/host_cudart/driver_memory.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tests/host_cudart/machine.h"
#include "tests/support/memory_of_descriptor.h"

using troupe::host_cudart::Machine;
using troupe::host_cudart::MemoryMap;

namespace troupe::test {

namespace {

/// CUDA's functions have no argument that names one.
std::unique_ptr<HostDriverMemory>& current() {
  static auto driver = std::make_unique<HostDriverMemory>();
  return driver;
}

}  // namespace

HostDriverMemory& HostDriverMemory::get() {
  return *current();
}

HostDriverMemory& HostDriverMemory::reset() {
  current() = std::make_unique<HostDriverMemory>();
  return get();
}

namespace {

constexpr std::size_t kUnit = std::size_t{2} << 20;

HostDriverMemory& driver() {
  return HostDriverMemory::get();
}

CUresult granularity(std::size_t* unit, const CUmemAllocationProp*,
                     CUmemAllocationGranularity_flags) {
  *unit = kUnit;
  return CUDA_SUCCESS;
}
CUresult create(CUmemGenericAllocationHandle* handle, std::size_t size,
                const CUmemAllocationProp* properties, unsigned long long) {
  const bool is_exported =
      properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  if (size % kUnit != 0 || !is_exported) return CUDA_ERROR_INVALID_VALUE;
  *handle = static_cast<CUmemGenericAllocationHandle>(make_shared_bytes(size));
  ++driver().allocations;
  return CUDA_SUCCESS;
}
CUresult release(CUmemGenericAllocationHandle handle) {
  --driver().allocations;
  return ::close(static_cast<int>(handle)) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult reserve(CUdeviceptr* address, std::size_t size, std::size_t, CUdeviceptr,
                 unsigned long long) {
  void* const data = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (size % kUnit != 0 || data == MAP_FAILED) return CUDA_ERROR_INVALID_VALUE;
  *address = reinterpret_cast<CUdeviceptr>(data);
  ++driver().addresses;
  return CUDA_SUCCESS;
}
CUresult free_addresses(CUdeviceptr address, std::size_t size) {
  --driver().addresses;
  return ::munmap(reinterpret_cast<void*>(address), size) == 0 ? CUDA_SUCCESS
                                                               : CUDA_ERROR_INVALID_VALUE;
}
CUresult map(CUdeviceptr address, std::size_t size, std::size_t,
             CUmemGenericAllocationHandle handle, unsigned long long) {
  struct stat status {};
  const int descriptor = static_cast<int>(handle);
  if (::fstat(descriptor, &status) != 0 || static_cast<std::size_t>(status.st_size) != size)
    return CUDA_ERROR_INVALID_VALUE;
  void* const data = ::mmap(reinterpret_cast<void*>(address), size, PROT_NONE,
                            MAP_SHARED | MAP_FIXED, descriptor, 0);
  if (data == MAP_FAILED) return CUDA_ERROR_INVALID_VALUE;
  Machine& machine = *Machine::current();
  const auto call = machine.begin_call("cuMemMap");
  machine.memory.add(data, {.bytes = size, .kind = MemoryMap::Kind::device});
  ++driver().mappings;
  return CUDA_SUCCESS;
}
CUresult unmap(CUdeviceptr address, std::size_t size) {
  Machine& machine = *Machine::current();
  const auto call = machine.begin_call("cuMemUnmap");
  machine.memory.remove(reinterpret_cast<void*>(address), MemoryMap::Kind::device);
  --driver().mappings;
  void* const data = ::mmap(reinterpret_cast<void*>(address), size, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return data == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult set_access(CUdeviceptr address, std::size_t size, const CUmemAccessDesc*, std::size_t) {
  if (!driver().gives_access) return CUDA_ERROR_INVALID_DEVICE;
  const int code = ::mprotect(reinterpret_cast<void*>(address), size, PROT_READ | PROT_WRITE);
  return code == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult export_handle(void* descriptor, CUmemGenericAllocationHandle handle,
                       CUmemAllocationHandleType, unsigned long long) {
  *static_cast<int*>(descriptor) = ::dup(static_cast<int>(handle));
  return CUDA_SUCCESS;
}
CUresult import_handle(CUmemGenericAllocationHandle* handle, void* descriptor,
                       CUmemAllocationHandleType) {
  struct stat status {};
  const int of = ::dup(static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor)));
  if (of < 0) return CUDA_ERROR_INVALID_VALUE;
  if (::fstat(of, &status) != 0 || status.st_size == 0) {
    ::close(of);
    return CUDA_ERROR_INVALID_VALUE;
  }
  *handle = static_cast<CUmemGenericAllocationHandle>(of);
  ++driver().allocations;
  return CUDA_SUCCESS;
}

/// Each is of the type of the driver's function of that name, or this does not compile.
template <typename Function>
void* as_driver_has_it(Function* function) {
  return reinterpret_cast<void*>(function);
}

void* function_named(const std::string& name) {
  const std::map<std::string, void*> functions{
      {"cuMemGetAllocationGranularity",
       as_driver_has_it<decltype(cuMemGetAllocationGranularity)>(granularity)},
      {"cuMemCreate", as_driver_has_it<decltype(cuMemCreate)>(create)},
      {"cuMemRelease", as_driver_has_it<decltype(cuMemRelease)>(release)},
      {"cuMemAddressReserve", as_driver_has_it<decltype(cuMemAddressReserve)>(reserve)},
      {"cuMemAddressFree", as_driver_has_it<decltype(cuMemAddressFree)>(free_addresses)},
      {"cuMemMap", as_driver_has_it<decltype(cuMemMap)>(map)},
      {"cuMemUnmap", as_driver_has_it<decltype(cuMemUnmap)>(unmap)},
      {"cuMemSetAccess", as_driver_has_it<decltype(cuMemSetAccess)>(set_access)},
      {"cuMemExportToShareableHandle",
       as_driver_has_it<decltype(cuMemExportToShareableHandle)>(export_handle)},
      {"cuMemImportFromShareableHandle",
       as_driver_has_it<decltype(cuMemImportFromShareableHandle)>(import_handle)}};
  const auto found = functions.find(name);
  return found == functions.end() ? nullptr : found->second;
}

}  // namespace
}  // namespace troupe::test

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                                        unsigned long long,
                                                        cudaDriverEntryPointQueryResult* found) {
  *function = troupe::test::HostDriverMemory::get().has_functions
                  ? troupe::test::function_named(name)
                  : nullptr;
  *found = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
