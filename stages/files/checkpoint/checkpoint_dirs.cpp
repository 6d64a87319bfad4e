#include "stages/files/checkpoint/checkpoint_dirs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <random>

#include "stages/files/checkpoint/best_checkpoints.h"
#include "stages/files/checkpoint/checkpoint.h"
#include "stages/files/checkpoint/checkpoint_state.h"
#include "stages/files/checkpoint/removal.h"
#include "stages/storage/input_file.h"
#include "stages/storage/output_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kUnfinished = ".tmp";
constexpr std::string_view kGivenUp = ".gone-";  // and a number
constexpr const char* kNewestFile = "newest";
constexpr const char* kNone = "none";
constexpr auto kNoNote = std::numeric_limits<std::int64_t>::max();

/// The step that note_newest() has noted, -1 for none; without a note the highest number.
std::int64_t newest_noted(const fs::path& checkpoints) try {
  std::string text = read_whole_file(checkpoints / kNewestFile, 100);
  if (text.ends_with('\n')) text.pop_back();
  return text == kNone ? -1 : step_of(text).value_or(kNoNote);
} catch (const Error&) {
  return kNoNote;
}

std::vector<fs::path> directories_in(const fs::path& dir) {
  std::error_code code;
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(dir, code), end; !code && entry != end; entry.increment(code))
    if (entry->is_directory(code)) found.push_back(entry->path());
  return found;
}

/// Whether this is step-N.<attempt>.tmp, or as older versions and give_up_checkpoint() name it, or
/// a step-N of the run that was not completed.
bool is_unfinished(const fs::path& dir, std::int64_t newest) {
  const std::string name = dir.filename().string();
  if (name.ends_with(kUnfinished)) return step_of(name.substr(0, name.find('.'))).has_value();
  const auto step = step_of(name);
  return step && *step <= newest && !file_exists(dir / kStateFile);
}

/// The step of a directory that give_up_checkpoint() has named; none of another name.
std::optional<std::int64_t> given_up_step(const fs::path& dir) {
  if (dir.extension() != kUnfinished) return {};
  std::string name = dir.stem().string();
  if (const auto number = name.find(kGivenUp); number != std::string::npos) name.erase(number);
  return step_of(name);
}

void move_to(const fs::path& from, const fs::path& to) {
  std::error_code code;
  fs::rename(from, to, code);
  refuse_if(code, fmt::format("checkpoint {}: cannot rename", from.string()));
}

}  // namespace

std::string step_name(std::int64_t step) {
  return fmt::format("{}{}", kPrefix, step);
}

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return {};
  std::int64_t step = -1;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  if (step < 0 || name != step_name(step)) return {};
  return step;
}

void give_up_checkpoint(const fs::path& checkpoints, std::int64_t step) {
  const fs::path dir = checkpoints / step_name(step);
  fs::path given_up = dir.string() + std::string(kUnfinished);
  remove_tree(given_up);
  for (int number = 2; file_exists(given_up); ++number)  // NFS has not removed all of it yet
    given_up = fmt::format("{}{}{}{}", dir.string(), kGivenUp, number, kUnfinished);
  move_to(dir, given_up);
}

std::vector<fs::path> given_up_checkpoints(const fs::path& checkpoints) {
  std::vector<fs::path> given_up;
  for (const fs::path& dir : directories_in(checkpoints))
    if (given_up_step(dir)) given_up.push_back(dir);
  return given_up;
}

fs::path set_aside_checkpoint(const fs::path& dir) {
  if (!file_exists(dir / kStateFile)) {
    remove_tree(dir);
    return {};
  }
  fs::path aside = dir.string() + ".other";
  for (int number = 2; file_exists(aside); ++number)
    aside = fmt::format("{}.other-{}", dir.string(), number);
  move_to(dir, aside);
  return aside;
}

fs::path unfinished_checkpoint(const fs::path& checkpoints, std::int64_t step) {
  std::random_device random;
  return checkpoints /
         fmt::format("{}.{:08x}{:08x}{}", step_name(step), random(), random(), kUnfinished);
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

void note_newest(const fs::path& checkpoints, std::int64_t step) {
  PublishedFile file(checkpoints / kNewestFile);
  file.file().write((step < 0 ? kNone : step_name(step)) + "\n");
  file.publish();
}

bool is_own_checkpoint(const fs::path& checkpoints, std::int64_t step) {
  return step <= newest_noted(checkpoints);
}

std::vector<std::int64_t> own_checkpoints(const fs::path& checkpoints) {
  std::vector<std::int64_t> steps = complete_checkpoints(checkpoints);
  std::erase_if(steps,
                [newest = newest_noted(checkpoints)](std::int64_t step) { return step > newest; });
  return steps;
}

std::vector<std::int64_t> removable_checkpoints(const fs::path& checkpoints) {
  std::vector<std::int64_t> steps = own_checkpoints(checkpoints);
  const std::vector<std::int64_t> best = best_checkpoints(checkpoints);
  std::erase_if(steps, [&](std::int64_t step) {
    return step == 0 || std::ranges::find(best, step) != best.end();
  });
  return steps;
}

void prune_checkpoints(const fs::path& checkpoints, const KeptCheckpoints& kept) {
  TROUPE_ASSERT(kept.newest >= 1);
  note_best(checkpoints, kept.best, kept.set);
  const std::int64_t newest = newest_noted(checkpoints);
  for (const fs::path& dir : directories_in(checkpoints))
    if (is_unfinished(dir, newest)) remove_tree(dir);
  const std::vector<std::int64_t> own = own_checkpoints(checkpoints);
  const auto newest_kept = own.end() - std::min(std::ssize(own), std::ptrdiff_t{kept.newest});
  for (const std::int64_t step : removable_checkpoints(checkpoints))
    if (std::find(newest_kept, own.end(), step) == own.end()) give_up_checkpoint(checkpoints, step);
  for (const fs::path& dir : given_up_checkpoints(checkpoints)) remove_tree(dir);
}

}  // namespace troupe::stages
