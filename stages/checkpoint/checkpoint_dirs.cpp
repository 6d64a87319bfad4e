#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <random>

#include "stages/checkpoint.h"
#include "stages/checkpoint/checkpoint_state.h"
#include "stages/storage/input_file.h"
#include "tensor/error.h"

namespace troupe::stages {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kUnfinished = ".tmp";

/// The number N of the name step-N.
std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return {};
  std::int64_t step = -1;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  if (step < 0 || name != fmt::format("{}{}", kPrefix, step)) return {};
  return step;
}

/// Whether this is step-N.<attempt>.tmp, or step-N.tmp as older versions and retire() name it, or a
/// step-N that was not completed.
bool is_unfinished(const fs::path& dir) {
  const std::string name = dir.filename().string();
  if (name.ends_with(kUnfinished)) return step_of(name.substr(0, name.find('.'))).has_value();
  return step_of(name).has_value() && !file_exists(dir / kStateFile);
}

std::vector<fs::path> directories_in(const fs::path& dir) {
  std::error_code code;
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(dir, code), end; !code && entry != end; entry.increment(code))
    if (entry->is_directory(code)) found.push_back(entry->path());
  return found;
}

void remove_tree(const fs::path& dir) {
  std::error_code code;
  fs::remove_all(dir, code);
  if (code)
    throw Error(ErrorKind::internal,
                fmt::format("checkpoint {}: cannot remove: {}", dir.string(), code.message()));
}

/// Removes a checkpoint. It is renamed first, because a half removed one must not look complete.
void retire(const fs::path& dir) {
  const fs::path unfinished = dir.string() + std::string(kUnfinished);
  remove_tree(unfinished);
  std::error_code code;
  fs::rename(dir, unfinished, code);
  if (code)
    throw Error(ErrorKind::internal,
                fmt::format("checkpoint {}: cannot rename: {}", dir.string(), code.message()));
  remove_tree(unfinished);
}

}  // namespace

fs::path unfinished_checkpoint(const fs::path& checkpoints, std::int64_t step) {
  std::random_device random;
  return checkpoints /
         fmt::format("{}{}.{:08x}{:08x}{}", kPrefix, step, random(), random(), kUnfinished);
}

std::vector<std::int64_t> complete_checkpoints(const fs::path& checkpoints) {
  std::vector<std::int64_t> steps;
  for (const fs::path& dir : directories_in(checkpoints)) {
    const auto step = step_of(dir.filename().string());
    if (step && file_exists(dir / kStateFile)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void prune_checkpoints(const fs::path& checkpoints, int keep) {
  TROUPE_ASSERT(keep >= 1);
  for (const fs::path& dir : directories_in(checkpoints))
    if (is_unfinished(dir)) remove_tree(dir);
  std::vector<std::int64_t> steps = complete_checkpoints(checkpoints);
  std::erase(steps, 0);
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < steps.size(); ++i)
    retire(checkpoints / fmt::format("{}{}", kPrefix, steps[i]));
}

}  // namespace troupe::stages
