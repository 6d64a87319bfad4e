#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tensor/device/device.h"
#include "tensor/libraries/library_search.h"

// The CUDA back end is a shared library of its own, libtroupe_cuda.so, which is opened only when it
// is asked for, so that one program starts on every machine. It is never closed.

namespace troupe::tensor {

/// A GPU of this machine.
struct DeviceInfo {
  std::string name;
  std::string uuid;          ///< "GPU-" and 32 hexadecimal digits in five groups
  int major = 0, minor = 0;  ///< its compute capability
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t free_bytes = 0;     ///< that no process uses now; 0 if the driver does not tell
  std::size_t context_bytes = 0;  ///< by measure_contexts(); 0: not measured
  std::vector<int> peers;         ///< other devices whose memory it reads and writes directly
  bool shares_memory = false;     ///< whether other processes can map its memory
};

struct LibraryVersion {
  std::string name;
  std::string version;
  std::string path;  ///< the file that was opened
};

struct DeviceReport {
  std::string driver;  ///< its version; empty if there is none
  std::vector<LibraryVersion> libraries;
  std::vector<DeviceInfo> devices;  ///< in the order of DeviceSpec::index
  std::string fault;                ///< why no device can be used; empty if one can
  bool emulates = false;            ///< whether the library stands in for GPUs on the host
  std::string collectives_fault;    ///< why GPUs cannot use NCCL; empty if its library is there
};

/// A hash of the headers by which the program and the back end call each other. Those of one tree
/// have the same, whatever else differs.
const char* interface_hash();
/// Why the program cannot use a back end that is open: it was built from other headers; empty if it
/// can. Nothing but the library's own hash is read.
std::string fault_of_interface(const OpenLibrary& back_end);

/// What this machine has for the CUDA back end. Loads the libraries, which may take a second, but
/// takes no memory of a GPU and starts no work on one. Throws nothing for what is missing.
DeviceReport report_cuda_devices();

/// Throws Error{unavailable} with one message if there is no driver or no such GPU, or if a library
/// is missing: which one, where it was looked for, and how to get it.
std::unique_ptr<Device> make_cuda_device(const DeviceSpec& spec);

}  // namespace troupe::tensor
