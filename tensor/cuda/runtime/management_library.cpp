#include "tensor/cuda/runtime/management_library.h"

#include <dlfcn.h>

#include <array>

namespace troupe::tensor::cuda {
namespace {

// The toolkit may come without nvml.h, so these are declared here as its documentation has them.
using Result = int;  // 0 is success
using Gpu = void*;
struct Memory {
  unsigned long long total, free, used;
};
using Init = Result();
using SystemText = Result(char* text, unsigned size);
using FindGpu = Result(const char* bus_id, Gpu* gpu);
using GpuMemory = Result(Gpu gpu, Memory* memory);

}  // namespace

ManagementLibrary::ManagementLibrary() : handle_(dlopen("libnvidia-ml.so.1", RTLD_NOW)) {
  if (!handle_) return;
  auto* const init = reinterpret_cast<Init*>(symbol("nvmlInit_v2"));
  if (init && init() == 0) return;
  dlclose(handle_);
  handle_ = nullptr;
}

ManagementLibrary::~ManagementLibrary() {
  if (!handle_) return;
  if (auto* const shutdown = reinterpret_cast<Init*>(symbol("nvmlShutdown"))) shutdown();
  dlclose(handle_);
}

std::string ManagementLibrary::driver_release() const {
  auto* const get = reinterpret_cast<SystemText*>(symbol("nvmlSystemGetDriverVersion"));
  std::array<char, 128> text{};
  if (!get || get(text.data(), text.size() - 1) != 0) return "";
  return text.data();
}

std::size_t ManagementLibrary::free_bytes(const std::string& bus_id) const {
  auto* const find = reinterpret_cast<FindGpu*>(symbol("nvmlDeviceGetHandleByPciBusId_v2"));
  auto* const get = reinterpret_cast<GpuMemory*>(symbol("nvmlDeviceGetMemoryInfo"));
  Gpu gpu = nullptr;
  Memory memory{};
  if (!find || !get || find(bus_id.c_str(), &gpu) != 0 || get(gpu, &memory) != 0) return 0;
  return memory.free;
}

void* ManagementLibrary::symbol(const char* name) const {
  return handle_ ? dlsym(handle_, name) : nullptr;
}

}  // namespace troupe::tensor::cuda
