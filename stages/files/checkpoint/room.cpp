#include "stages/files/checkpoint/room.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "stages/files/checkpoint/checkpoint.h"
#include "stages/files/checkpoint/checkpoint_dirs.h"
#include "stages/storage/input_file.h"
#include "stages/storage/output_file.h"

namespace troupe::stages {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRemoved = ".removed";

/// Removes what has been given up, together with the other ranks that do so. Returns whether any of
/// it is gone.
bool remove_given_up(const fs::path& checkpoints) {
  bool any = false;
  for (const fs::path& dir : given_up_checkpoints(checkpoints)) {
    std::error_code code;
    do fs::remove_all(dir, code);
    while (code == std::errc::no_such_file_or_directory && file_exists(dir));  // another was faster
    any |= !file_exists(dir);
  }
  return any;
}

/// Removes the oldest checkpoint that may be removed, but never the newest. Returns its step; none
/// if there is none to remove, or if another rank was faster.
std::optional<std::int64_t> remove_oldest(const fs::path& checkpoints) {
  const std::vector<std::int64_t> steps = removable_checkpoints(checkpoints);
  if (steps.empty() || steps.front() == own_checkpoints(checkpoints).back()) return {};
  try {
    give_up_checkpoint(checkpoints, steps.front());
  } catch (const Error&) {
    return {};
  }
  remove_given_up(checkpoints);
  return steps.front();
}

/// What a rank sees before an attempt. If any of it goes meanwhile, the attempt may have failed for
/// it.
struct Removable {
  std::vector<std::int64_t> steps;
  std::vector<fs::path> given_up;
  bool operator==(const Removable&) const = default;
};

Removable removable(const fs::path& checkpoints) {
  return {.steps = removable_checkpoints(checkpoints),
          .given_up = given_up_checkpoints(checkpoints)};
}

}  // namespace

std::vector<std::int64_t> write_with_room(const fs::path& checkpoints,
                                          const std::function<void()>& write) {
  std::vector<std::int64_t> removed;
  Removable seen = removable(checkpoints);
  while (true) {
    try {
      write();
      return removed;
    } catch (const DiskFull&) {
      if (const auto step = remove_oldest(checkpoints))
        removed.push_back(*step);
      else if (!remove_given_up(checkpoints) && removable(checkpoints) == seen)
        throw;  // neither this rank nor another has made room since the last attempt
      seen = removable(checkpoints);
    }
  }
}

void note_removed(const fs::path& unfinished, const std::vector<std::int64_t>& steps) {
  for (const std::int64_t step : steps) try {
      OutputFile::create(unfinished / fmt::format("{}{}", step_name(step), kRemoved));
    } catch (const Error&) {
      return;
    }
}

std::vector<std::int64_t> noted_as_removed(const fs::path& unfinished) {
  std::vector<std::int64_t> steps;
  std::error_code code;
  for (fs::directory_iterator entry(unfinished, code), end; !code && entry != end;
       entry.increment(code))
    if (entry->path().extension() == kRemoved)
      if (const auto step = step_of(entry->path().stem().string())) steps.push_back(*step);
  std::ranges::sort(steps);
  return steps;
}

}  // namespace troupe::stages
