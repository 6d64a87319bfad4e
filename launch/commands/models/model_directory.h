#pragma once

#include <string>

namespace troupe::launch {

/// The directory of a command's model: `path` itself; of a run its newest checkpoint; of the file
/// `best` in a run's checkpoints the first that it names. What is taken is named on standard error.
/// Throws Error{data} if there is none.
std::string model_directory(const std::string& path);

}  // namespace troupe::launch
