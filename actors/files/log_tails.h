#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>

#include "actors/messages/file_messages.h"

namespace troupe::actors {

/// The most bytes of a file that a LogTail has.
inline constexpr std::int64_t kTailBytes = 1 << 16;

/// The logs of a host whose run directory is its own: each file's last lines, for the run's. Used
/// by one thread.
class LogTails {
 public:
  /// What the file holds now is not told.
  void begin(const std::filesystem::path& file);
  /// What came since begin() or the last call, of more than kTailBytes the last whole lines, after
  /// a line that says where the rest is; none if nothing came.
  std::optional<LogTail> take(const std::filesystem::path& file, const std::string& host);
  /// The last whole lines of a file that is written anew each time, if it was since the last call.
  std::optional<LogTail> take_anew(const std::filesystem::path& file);

 private:
  std::map<std::filesystem::path, std::int64_t> told_;  ///< bytes of each
  std::map<std::filesystem::path, std::filesystem::file_time_type> written_;
};

/// Adds a tail to the logs of a run directory. Throws Error with the path and the system's reason,
/// and Error{data} for a tail that names no file of a worker.
void add_tail(const std::filesystem::path& logs, const LogTail& tail);

}  // namespace troupe::actors
