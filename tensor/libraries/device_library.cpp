#include "tensor/libraries/device_library.h"

#include <fmt/format.h>

#include <string_view>

#include "tensor/errors/error.h"
#include "tensor/libraries/library_search.h"

namespace troupe::tensor {
namespace {

constexpr std::string_view kProducts = "libcublasLt.so.13";
// Without these two our own kernels do the work of cuDNN.
constexpr std::string_view kRuntime = "libcudart.so.13";
constexpr std::string_view kAttention = "libcudnn.so.9";
constexpr std::string_view kCollectives = "libnccl.so.2";
constexpr char kHowToGet[] =
    "launch/install_cuda brings CUDA's libraries; the environment variable TROUPE_CUDA_PATH names "
    "a folder that has them";

/// cuBLASLt, cuDNN and NCCL number their versions so.
std::string version_text(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

/// The version that a library of CUDA tells of itself; none if it does not.
std::string version_of(const OpenLibrary& library) {
  for (const char* name : {"cublasLtGetVersion", "cudnnGetVersion"})
    if (void* const get = library.symbol(name))
      return version_text(reinterpret_cast<std::size_t (*)()>(get)());
  int version = 0;
  if (void* const get = library.symbol("ncclGetVersion"))
    if (reinterpret_cast<int (*)(int*)>(get)(&version) == 0)
      return version_text(static_cast<std::size_t>(version));
  if (void* const get = library.symbol("cudaRuntimeGetVersion"))
    if (reinterpret_cast<int (*)(int*)>(get)(&version) == 0)
      return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  return "";
}

/// The back end and what it was opened with.
struct Opened {
  OpenLibrary back_end;
  std::vector<LibraryVersion> libraries;
  std::string fault;  ///< why the back end cannot be used; empty if it can
  std::string collectives_fault;
};

Opened open_back_end(const LibrarySearch& search, const std::vector<std::string_view>& libraries) {
  Opened opened;
  for (const std::string_view name : libraries) {
    const OpenLibrary library = open_cuda_library(search, std::string(name));
    if (library.handle) {
      opened.libraries.push_back({std::string(name), version_of(library), library.path});
    } else if (name == kProducts) {
      opened.fault = fmt::format("{}; {}", library.fault, kHowToGet);
    } else if (name == kCollectives) {
      opened.collectives_fault = library.fault;
    }
  }
  if (!opened.fault.empty()) return opened;
  opened.back_end = open_own_library(search, "libtroupe_cuda.so");
  opened.fault =
      opened.back_end.handle ? fault_of_interface(opened.back_end) : opened.back_end.fault;
  if (opened.back_end.path.empty()) {
    opened.fault +=
        "; it is built where CMake finds nvcc of CUDA 13, which launch/install_cuda brings";
  }
  return opened;
}

/// Why nothing can run on a GPU here, found without loading any other library; empty if there may
/// be one.
std::string fault_of_driver(const LibrarySearch& search) {
  if (open_driver(search).handle) return "";
  return "no NVIDIA driver on this machine (libcuda.so.1 is not there): a GPU needs the driver of "
         "release 580 or later";
}

/// A function that every back end has.
template <typename Function>
Function* function_of(const OpenLibrary& back_end, const char* name) {
  void* const found = back_end.symbol(name);
  TROUPE_ASSERT(found);
  return reinterpret_cast<Function*>(found);
}

}  // namespace

std::string fault_of_interface(const OpenLibrary& back_end) {
  void* const found = back_end.symbol("troupe_interface");
  const std::string has = found ? reinterpret_cast<const char* (*)()>(found)() : "none";
  if (has == interface_hash()) return "";
  return fmt::format(
      "{} is of another build than this program: its interface is {}, the program's {}; build both "
      "from one tree",
      back_end.path.string(), has, interface_hash());
}

DeviceReport report_cuda_devices() {
  const LibrarySearch search = LibrarySearch::of_this_process();
  const std::string fault = fault_of_driver(search);
  const Opened opened = open_back_end(search, {kProducts, kRuntime, kAttention, kCollectives});
  DeviceReport report;
  report.libraries = opened.libraries;
  report.collectives_fault = opened.collectives_fault;
  report.fault = fault.empty() ? opened.fault : fault;
  if (!report.fault.empty()) return report;
  try {
    (*function_of<void(DeviceReport&)>(opened.back_end, "troupe_report_devices"))(report);
  } catch (const Error& error) {
    report.fault = error.what();
  }
  return report;
}

std::unique_ptr<Device> make_cuda_device(const DeviceSpec& spec) {
  const LibrarySearch search = LibrarySearch::of_this_process();
  std::string fault = fault_of_driver(search);
  Opened opened;
  if (fault.empty()) {
    opened = open_back_end(search, {kProducts, kRuntime, kAttention});
    fault = opened.fault;
  }
  if (!fault.empty()) throw Error(ErrorKind::unavailable, fault);
  auto* const make = function_of<Device*(const DeviceSpec&)>(opened.back_end, "troupe_make_device");
  return std::unique_ptr<Device>(make(spec));
}

std::unique_ptr<Device> make_device(const DeviceSpec& spec) {
  return spec.kind == DeviceKind::cpu ? make_cpu_device(spec.threads) : make_cuda_device(spec);
}

}  // namespace troupe::tensor
