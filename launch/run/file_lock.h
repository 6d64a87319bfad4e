#pragma once

#include <fcntl.h>

#include <cstdio>

namespace troupe::launch {

/// A lock of all of a file, F_WRLCK or F_RDLCK, for fcntl.
inline struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace troupe::launch
