#include "tensor/cuda/runtime/gpus.h"

#include <fmt/format.h>

#include <array>

#include "tensor/cuda/runtime/cuda_error.h"
#include "tensor/cuda/runtime/driver_settings.h"
#include "tensor/cuda/runtime/management_library.h"
#include "tensor/errors/error.h"

namespace troupe::tensor::cuda {
namespace {

/// Whether the kernels run on a GPU. They are compiled for 8.0, which all of 8.x run, 9.0, 10.0,
/// which all of 10.x run, and 12.0, which the driver compiles anew for later ones
/// (cmake/cuda.cmake).
bool runs_kernels(const cudaDeviceProp& gpu) {
  return (gpu.major >= 8 && gpu.major <= 10) || gpu.major >= 12;
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string fault_of_driver(cudaError_t code) {
  int serves = 0;  // stays 0 without a driver
  (void)cudaDriverGetVersion(&serves);
  switch (code) {
    case cudaErrorInsufficientDriver:
      if (serves == 0) return "no NVIDIA driver on this machine that CUDA can use";
      return fmt::format(
          "the NVIDIA driver is too old: it serves CUDA {}, and {} is needed (release 580 or "
          "later)",
          version_text(serves), version_text(CUDART_VERSION));
    case cudaErrorNoDevice:
      return "the NVIDIA driver finds no GPU that this process may use (CUDA_VISIBLE_DEVICES may "
             "hide it)";
    case cudaErrorStubLibrary:
      return "the libcuda.so.1 that was opened is the toolkit's stub, not the NVIDIA driver: take "
             "its folder out of LD_LIBRARY_PATH";
    default:
      return fmt::format("the NVIDIA driver cannot be used: {} ({}); nvidia-smi may tell more",
                         cudaGetErrorString(code), cudaGetErrorName(code));
  }
}

std::string fault_of(int index, const cudaDeviceProp& gpu) {
  if (runs_kernels(gpu)) return "";
  return fmt::format(
      "GPU {} ({}) has compute capability {}.{}; this build runs on 8.0 (Ampere: A100, RTX 30) and "
      "later, except 11.x",
      index, gpu.name, gpu.major, gpu.minor);
}

cudaDeviceProp properties_of(int index) {
  cudaDeviceProp gpu{};
  check(cudaGetDeviceProperties(&gpu, index), "cudaGetDeviceProperties");
  return gpu;
}

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

DeviceInfo info_of(int index, int count, const ManagementLibrary& management) {
  const cudaDeviceProp gpu = properties_of(index);
  DeviceInfo info{.name = gpu.name,
                  .uuid = uuid_text(gpu.uuid),
                  .major = gpu.major,
                  .minor = gpu.minor,
                  .multiprocessors = gpu.multiProcessorCount,
                  .memory_bytes = gpu.totalGlobalMem};
  std::array<char, 32> bus_id{};
  check(cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size(), index), "cudaDeviceGetPCIBusId");
  info.free_bytes = management.free_bytes(bus_id.data());
  int handles = 0;
  check(cudaDeviceGetAttribute(&handles, cudaDevAttrMemoryPoolSupportedHandleTypes, index),
        "cudaDeviceGetAttribute");
  info.shares_memory = (handles & cudaMemHandleTypePosixFileDescriptor) != 0;
  for (int peer = 0; peer < count; ++peer) {
    int can = 0;
    if (peer != index) check(cudaDeviceCanAccessPeer(&can, index, peer), "cudaDeviceCanAccessPeer");
    if (can) info.peers.push_back(peer);
  }
  return info;
}

}  // namespace

int count_gpus() {
  set_driver_environment();
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess) throw Error(ErrorKind::unavailable, fault_of_driver(code));
  if (count < 1) throw Error(ErrorKind::unavailable, fault_of_driver(cudaErrorNoDevice));
  return count;
}

cudaDeviceProp properties_of_usable_gpu(int index) {
  const int count = count_gpus();
  if (index < 0 || index >= count) {
    throw Error(
        ErrorKind::unavailable,
        fmt::format("no GPU {} on this machine: there are {}, numbered from 0", index, count));
  }
  const cudaDeviceProp gpu = properties_of(index);
  const std::string fault = fault_of(index, gpu);
  if (!fault.empty()) throw Error(ErrorKind::unavailable, fault);
  return gpu;
}

void report_gpus(DeviceReport& report) {
  const int count = count_gpus();
  const ManagementLibrary management;
  int serves = 0, runtime = 0;
  check(cudaDriverGetVersion(&serves), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  const std::string release = management.driver_release();
  report.driver =
      fmt::format("{}{}for CUDA {}", release, release.empty() ? "" : ", ", version_text(serves));
  report.libraries.push_back({"CUDA runtime", version_text(runtime), "within libtroupe_cuda.so"});
  bool usable = false;
  for (int index = 0; index < count; ++index) {
    report.devices.push_back(info_of(index, count, management));
    usable |= fault_of(index, properties_of(index)).empty();
  }
  if (!usable) report.fault = fault_of(0, properties_of(0));
}

}  // namespace troupe::tensor::cuda
