#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

// Which checkpoints are the best: those whose step had the lowest loss in an evaluation. A
// checkpoint holds the loss of its step in a file, so that it keeps it wherever it is moved.

namespace troupe::stages {

/// The name of the file beside the checkpoints that names the best.
inline constexpr const char* kBestFile = "best";

/// The loss of a step in an evaluation.
struct EvaluatedStep {
  std::int64_t step = 0;
  double loss = 0;
  std::string set;  ///< on which text: only losses of the same one are compared
};

/// Writes the loss into the checkpoint of the step, if it is there and complete. Returns whether it
/// is. Throws Error{internal} with the path and the system's reason, or DiskFull.
bool note_evaluation(const std::filesystem::path& checkpoints, const EvaluatedStep& evaluated);

/// Notes in kBestFile the `count` best of the run's own that were evaluated on `set`, the best
/// first, of equal ones the earliest; losses that are not finite do not count; of none there is no
/// file. What someone else has put there stays. Throws Error{internal} with the path and the
/// reason, be it the system's or that the name is taken, or DiskFull.
void note_best(const std::filesystem::path& checkpoints, int count, const std::string& set);
/// The steps that the file names, of checkpoints that are complete; none without the file.
std::vector<std::int64_t> best_checkpoints(const std::filesystem::path& checkpoints);

}  // namespace troupe::stages
