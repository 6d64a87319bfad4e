#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

// Writing checkpoints on a disk that is full: older ones of the run make room, the oldest first,
// but the newest complete one, and those that are kept as the best, never go.

namespace troupe::stages {

/// Calls `write`, and again after a DiskFull for as long as older checkpoints of the run, or what
/// is left of some that are being removed, can make room. `write` must be able to repeat what it
/// did. Several ranks may do so at once. Returns the steps whose checkpoints this call has removed.
/// What `write` throws otherwise passes through, as does a DiskFull that nothing can help.
std::vector<std::int64_t> write_with_room(const std::filesystem::path& checkpoints,
                                          const std::function<void()>& write);

/// Leaves word in an unfinished checkpoint of those that have made room for it, for the one who
/// completes it. Throws nothing: without room for it the word is not left.
void note_removed(const std::filesystem::path& unfinished, const std::vector<std::int64_t>& steps);
/// The steps that note_removed() has left word of, by all ranks.
std::vector<std::int64_t> noted_as_removed(const std::filesystem::path& unfinished);

}  // namespace troupe::stages
