#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// Names in a run's directory of checkpoints.

namespace troupe::stages {

/// "step-12".
std::string step_name(std::int64_t step);
/// The number N of the name step-N; none of another name.
std::optional<std::int64_t> step_of(const std::string& name);

/// The complete checkpoints of the run that may be removed, ascending: its own but step-0 and the
/// best (best_checkpoints()).
std::vector<std::int64_t> removable_checkpoints(const std::filesystem::path& checkpoints);
/// Renames a checkpoint that is to be removed, because a half removed one must not look complete.
/// Of several callers one succeeds. Throws Error{internal} with the path and the system's reason.
void give_up_checkpoint(const std::filesystem::path& checkpoints, std::int64_t step);
/// Directories of give_up_checkpoint() that are not removed yet.
std::vector<std::filesystem::path> given_up_checkpoints(const std::filesystem::path& checkpoints);

/// Frees the path of a checkpoint: an incomplete one is removed, and a complete one, which another
/// run must have written, is renamed. Returns its new path; empty if there was none. Throws
/// Error{internal} with the path and the system's reason.
std::filesystem::path set_aside_checkpoint(const std::filesystem::path& dir);

}  // namespace troupe::stages
