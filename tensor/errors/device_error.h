#pragma once

#include <string>

#include "tensor/errors/error.h"

namespace troupe {

/// A device has failed: this process can use it no more, perhaps no process can.
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message) : Error(ErrorKind::internal, message) {}
};

}  // namespace troupe
