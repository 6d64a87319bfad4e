#include "transport/memory/file_descriptor.h"

#include <unistd.h>

namespace troupe::transport {

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace troupe::transport
