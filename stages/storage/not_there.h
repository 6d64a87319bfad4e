#pragma once

#include <string>

#include "tensor/errors/error.h"

namespace troupe::stages {

/// Nothing is at a path, or no longer what was there. On a network file system it may come yet:
/// another host's files are seen some time after they were written.
class NotThere : public Error {
 public:
  explicit NotThere(const std::string& message) : Error(ErrorKind::data, message) {}
};

}  // namespace troupe::stages
