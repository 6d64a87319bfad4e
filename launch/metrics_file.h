#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "actors/reports.h"

namespace troupe::launch {

/// A line of metrics.jsonl, without its end. Loss and norm have 17 significant digits: all that a
/// double has. What is not finite becomes null, as JSON has no name for it.
std::string metrics_line(const actors::StepReport& report);
std::string metrics_line(const actors::EvalReport& report);

/// metrics.jsonl, open for appending. Each line is in the file when append() returns.
class MetricsFile {
 public:
  /// Throws Error{data} if the file cannot be written.
  explicit MetricsFile(const std::filesystem::path& path);
  /// Throws Error{internal} naming the file, as on a full disk.
  void append(const std::string& line);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

/// Keeps the lines of steps up to `step` and drops the rest: later steps, repeated ones, a torn
/// last line. The file is replaced whole; a missing one stays missing.
void cut_back_metrics(const std::filesystem::path& path, std::int64_t step);

/// The last step that the file tells of; 0 without one.
std::int64_t last_metrics_step(const std::filesystem::path& path);

}  // namespace troupe::launch
