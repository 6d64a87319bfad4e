#pragma once

#include <string>

namespace troupe::launch {

/// The directory of a command's model: `path` itself, or the newest checkpoint of a run, which is
/// then named on standard error. Throws Error{data} if the run has none.
std::string model_directory(const std::string& path);

}  // namespace troupe::launch
