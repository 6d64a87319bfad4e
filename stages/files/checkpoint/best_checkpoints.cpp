#include "stages/files/checkpoint/best_checkpoints.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "stages/files/checkpoint/checkpoint.h"
#include "stages/files/checkpoint/checkpoint_dirs.h"
#include "stages/files/checkpoint/checkpoint_state.h"
#include "stages/storage/input_file.h"
#include "stages/storage/output_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kEvaluationFile = "evaluation.json";
constexpr std::size_t kMostBytes = 1 << 20;

bool is_complete(const fs::path& checkpoint) {
  return file_exists(checkpoint / kStateFile);
}

/// The loss that the checkpoint of a step holds; none without one, or of one that cannot be read.
std::optional<EvaluatedStep> evaluation_of(const fs::path& checkpoints, std::int64_t step) try {
  const json file =
      json::parse(read_whole_file(checkpoints / step_name(step) / kEvaluationFile, kMostBytes));
  return EvaluatedStep{.step = step, .loss = file.at("eval_loss"), .set = file.at("set")};
} catch (const json::exception&) {
  return {};
} catch (const Error&) {
  return {};
}

/// Whether something else than a list of checkpoints has the name of the file.
bool is_taken(const fs::path& file) try {
  const auto type = fs::symlink_status(file).type();
  if (type == fs::file_type::not_found) return false;
  if (type != fs::file_type::regular) return true;
  std::istringstream names(read_whole_file(file, kMostBytes));
  for (std::string name; std::getline(names, name);)
    if (!step_of(name)) return true;
  return false;
} catch (const Error&) {
  return true;  // a list can be read, and is short
}

}  // namespace

bool note_evaluation(const fs::path& checkpoints, const EvaluatedStep& evaluated) {
  const fs::path checkpoint = checkpoints / step_name(evaluated.step);
  if (!is_complete(checkpoint)) return false;
  PublishedFile file(checkpoint / kEvaluationFile);
  file.file().write(json{{"eval_loss", evaluated.loss}, {"set", evaluated.set}}.dump() + "\n");
  file.publish();
  return true;
}

void note_best(const fs::path& checkpoints, int count, const std::string& set) {
  const fs::path list = checkpoints / kBestFile;
  const bool taken = is_taken(list);
  if (count == 0) {
    std::error_code ignored;
    if (!taken) fs::remove(list, ignored);
    return;
  }
  if (taken)
    throw Error(ErrorKind::internal,
                list.string() +
                    " is no list of checkpoints of this program, so it stays, and the "
                    "best ones are not named; move it away");
  std::vector<EvaluatedStep> best;
  for (const std::int64_t step : own_checkpoints(checkpoints))
    if (auto found = evaluation_of(checkpoints, step))
      if (found->set == set && std::isfinite(found->loss)) best.push_back(std::move(*found));
  std::ranges::stable_sort(best, {}, &EvaluatedStep::loss);
  best.resize(std::min(best.size(), static_cast<std::size_t>(count)));
  std::string text;
  for (const EvaluatedStep& each : best) text += step_name(each.step) + "\n";
  PublishedFile file(list);
  file.file().write(text);
  file.publish();
}

std::vector<std::int64_t> best_checkpoints(const fs::path& checkpoints) try {
  std::istringstream names(read_whole_file(checkpoints / kBestFile, kMostBytes));
  std::vector<std::int64_t> steps;
  for (std::string name; std::getline(names, name);)
    if (const auto step = step_of(name); step && is_complete(checkpoints / name))
      steps.push_back(*step);
  return steps;
} catch (const Error&) {
  return {};
}

}  // namespace troupe::stages
