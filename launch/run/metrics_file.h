#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "actors/topology/reports.h"

namespace troupe::launch {

/// A line of metrics.jsonl, without its end. Loss and norm have 17 significant digits: all that a
/// double has. What is not finite becomes null, as JSON has no name for it.
std::string metrics_line(const actors::StepReport& report);
std::string metrics_line(const actors::EvalReport& report);

/// metrics.jsonl, open for appending. Each line is in the file when append() returns, as a whole;
/// on a full disk it is kept until there is room.
class MetricsFile {
 public:
  /// Lines are kept up to this size; beyond it the newest are lost.
  static constexpr std::size_t kMaxUnwritten = 64 << 20;

  /// Throws Error{data} if the file cannot be written.
  explicit MetricsFile(const std::filesystem::path& path);
  MetricsFile(const MetricsFile&) = delete;
  ~MetricsFile();
  /// Why the line is not in the file yet, with the file's name; empty if it is.
  std::string append(const std::string& line);
  /// Tries to write what is kept. Why that cannot be, with the file's name; empty if nothing is
  /// left.
  std::string flush();

 private:
  bool write_out();

  const std::filesystem::path path_;
  int fd_ = -1;
  std::string unwritten_;  // whole lines
};

/// Keeps the lines of steps up to `step` and drops the rest: later steps, repeated ones, a torn
/// last line. The file is replaced whole; a missing one stays missing.
void cut_back_metrics(const std::filesystem::path& path, std::int64_t step);

/// The last step that the file tells of; 0 without one.
std::int64_t last_metrics_step(const std::filesystem::path& path);

}  // namespace troupe::launch
