#include "launch/commands/models/inference.h"

#include <fmt/format.h>

#include <filesystem>

#include "launch/host/console.h"
#include "launch/run/run_directory.h"
#include "stages/files/checkpoint/best_checkpoints.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

namespace fs = std::filesystem;

std::string taken(const fs::path& checkpoints, std::int64_t step) {
  const std::string path = (checkpoints / fmt::format("step-{}", step)).string();
  print_error("takes " + path);
  return path;
}

}  // namespace

std::string model_directory(const std::string& path) {
  std::error_code ignored;
  if (fs::path(path).filename() == stages::kBestFile && fs::is_regular_file(path, ignored)) {
    const fs::path checkpoints = fs::absolute(path).parent_path();
    const auto best = stages::best_checkpoints(checkpoints);
    if (best.empty()) throw Error(ErrorKind::data, path + ": no checkpoint that it names is there");
    return taken(checkpoints, best.front());
  }
  const fs::path run = path, checkpoints = run / kCheckpoints;
  if (!holds_run(run) || !fs::is_directory(checkpoints, ignored)) return path;
  require_readable(checkpoints);
  const auto steps = stages::own_checkpoints(checkpoints);
  if (steps.empty())
    throw Error(ErrorKind::data, fmt::format("{}: the run has no checkpoint yet", path));
  return taken(checkpoints, steps.back());
}

}  // namespace troupe::launch
