#pragma once

#include "tensor/error.h"

namespace troupe::launch {

/// Calls `write`, which makes the files that a command is for. Where one cannot be written, the
/// place that the user gave is at fault: that is Error{data} then.
template <typename Write>
auto writing_output(const Write& write) try {
  return write();
} catch (const Error& error) {
  if (error.kind() == ErrorKind::internal) throw Error(ErrorKind::data, error.what());
  throw;
}

}  // namespace troupe::launch
