#pragma once

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>

// Memory of the host that processes share by a file descriptor: what devices of tests share in
// place of a GPU's.

namespace troupe::test {

/// A descriptor of so many bytes of zeros; -1 if the system gives none.
inline int make_shared_bytes(std::size_t bytes) {
  const int descriptor = ::memfd_create("device memory of tests", MFD_CLOEXEC);
  if (descriptor >= 0 && ::ftruncate(descriptor, static_cast<off_t>(bytes)) == 0) return descriptor;
  if (descriptor >= 0) ::close(descriptor);
  return -1;
}

/// Maps them. Null if they are fewer, or no such memory.
inline void* map_shared_bytes(int descriptor, std::size_t bytes) {
  struct stat status {};
  const bool fits = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
                    static_cast<std::size_t>(status.st_size) >= bytes;
  if (!fits || bytes == 0) return nullptr;
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return data == MAP_FAILED ? nullptr : data;
}

}  // namespace troupe::test
