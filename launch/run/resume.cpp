#include "launch/run/resume.h"

#include <fmt/format.h>

#include <algorithm>

#include "launch/run/run_directory.h"
#include "stages/files/checkpoint/checkpoint_dirs.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

namespace fs = std::filesystem;

/// The numbers N of all directories step-N, in descending order, whatever they contain.
std::vector<std::int64_t> saved_steps(const fs::path& checkpoints) {
  std::vector<std::int64_t> steps;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(checkpoints, ignored))
    if (const auto step = stages::step_of(entry.path().filename())) steps.push_back(*step);
  std::ranges::sort(steps, std::greater());
  return steps;
}

}  // namespace

ResumePoint find_resume_point(const fs::path& run, const stages::Progress& progress, int threads,
                              bool reads_all, const fs::path& base) {
  ResumePoint point;
  for (const std::int64_t step : saved_steps(run / kCheckpoints)) {
    const fs::path path = run / kCheckpoints / stages::step_name(step);
    if (!stages::is_own_checkpoint(run / kCheckpoints, step)) {
      point.of_others.insert(point.of_others.begin(), path);
      continue;
    }
    try {
      auto checkpoint = stages::CheckpointReader::open(path, base);
      if (reads_all) checkpoint->verify(progress, threads);
      point.path = path;
      point.checkpoint = std::move(checkpoint);
      return point;
    } catch (const Error& error) {
      point.torn.push_back({.path = path, .reason = error.what()});
    }
  }
  return point;
}

void set_aside(const TornCheckpoint& torn) {
  const fs::path target = torn.path.string() + ".torn";
  std::error_code error;
  fs::remove_all(target, error);
  fs::rename(torn.path, target, error);
  if (error)
    throw Error(ErrorKind::data, fmt::format("cannot rename the torn checkpoint {}: {}",
                                             torn.path.string(), error.message()));
}

}  // namespace troupe::launch
