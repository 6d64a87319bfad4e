#include "launch/commands/model_directory.h"

#include <fmt/format.h>

#include <filesystem>

#include "launch/host/console.h"
#include "launch/manifest/manifest.h"
#include "launch/run/run_directory.h"
#include "stages/checkpoint.h"
#include "tensor/error.h"

namespace troupe::launch {

std::string model_directory(const std::string& path) {
  const std::filesystem::path run = path, checkpoints = run / kCheckpoints;
  std::error_code ignored;
  if (!std::filesystem::exists(run / kManifestFile, ignored) ||
      !std::filesystem::is_directory(checkpoints, ignored))
    return path;
  const auto steps = stages::complete_checkpoints(checkpoints);
  if (steps.empty())
    throw Error(ErrorKind::data, fmt::format("{}: the run has no checkpoint yet", path));
  const auto newest = (checkpoints / fmt::format("step-{}", steps.back())).string();
  print_error("takes " + newest);
  return newest;
}

}  // namespace troupe::launch
