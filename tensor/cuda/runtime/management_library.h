#pragma once

#include <cstddef>
#include <string>

namespace troupe::tensor::cuda {

/// NVML, the driver's library that tells of GPUs without using them. It is opened at run time; on a
/// machine without it every answer is empty.
class ManagementLibrary {
 public:
  ManagementLibrary();
  ManagementLibrary(const ManagementLibrary&) = delete;
  ManagementLibrary& operator=(const ManagementLibrary&) = delete;
  ~ManagementLibrary();

  /// The driver's release, as 580.65.06.
  std::string driver_release() const;
  /// The bytes that no process uses of the GPU at a PCI bus id, as 0000:1B:00.0.
  std::size_t free_bytes(const std::string& bus_id) const;

 private:
  void* symbol(const char* name) const;

  void* handle_ = nullptr;
};

}  // namespace troupe::tensor::cuda
