#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "actors/topology/reports/reports.h"
#include "launch/run/json_fields.h"

namespace troupe::launch {

// What a run reports of its steps, as its files, events and status have it.

TROUPE_JSON_FIELDS(actors::StepReport::StageTime, x.replica, x.stage, x.shard, x.busy_s, x.idle_s,
                   x.collective_s, unless_empty(x.device_used_bytes),
                   unless_empty(x.device_total_bytes), unless_empty(x.host_bytes),
                   unless_empty(x.network_bytes))
TROUPE_JSON_FIELDS(actors::StepReport::EdgeBytes, x.from, x.to, x.bytes, x.wait_s)
TROUPE_JSON_FIELDS(actors::StepReport::Collectives, x.group, keyed("op", x.operation), x.count,
                   x.bytes, x.time_s, x.exposed_s)
TROUPE_JSON_FIELDS(actors::StepReport::SourceLoss, x.name, x.loss, x.tokens)
TROUPE_JSON_FIELDS(actors::StepReport::Router, x.layer, x.load, x.entropy, x.balance, x.z)
TROUPE_JSON_FIELDS(actors::StepReport::Measured, x.stages, x.edges, x.collectives)
TROUPE_JSON_FIELDS(actors::SetLoss, x.name, x.loss)

/// A line of metrics.jsonl, without its line break. Loss and norm have 17 significant digits, which
/// hold a double exactly. A number that is not finite becomes null, because JSON has no name for
/// it.
/// `mfu` is the model FLOP utilization; there is no such field if it is none, and no device_*_bytes
/// for a CPU.
std::string metrics_line(const actors::StepReport& report, std::optional<double> mfu = {});
std::string metrics_line(const actors::EvalReport& report);

/// metrics.jsonl, open for appending. Each line is in the file as a whole when append() returns; on
/// a full disk it is kept in memory until there is room.
class MetricsFile {
 public:
  /// The most bytes of lines that are kept in memory; beyond it the newest lines are lost.
  static constexpr std::size_t kMaxUnwritten = 64 << 20;

  /// Throws Error{data} if the file cannot be written.
  explicit MetricsFile(const std::filesystem::path& path);
  MetricsFile(const MetricsFile&) = delete;
  ~MetricsFile();
  /// Appends a line. Returns why it is not in the file yet, with the file's name; empty if it is.
  std::string append(const std::string& line);
  /// Tries to write the lines that are kept. Returns why they cannot be written, with the file's
  /// name; empty if none are left.
  std::string flush();

 private:
  bool write_out();

  const std::filesystem::path path_;
  int fd_ = -1;
  std::string unwritten_;  // whole lines that are not in the file yet
};

/// Keeps the lines of steps up to `step` and drops the rest: later steps, repeated steps, an
/// incomplete last line. The file is replaced atomically; a file that does not exist is not
/// created.
void cut_back_metrics(const std::filesystem::path& path, std::int64_t step);

/// The last step and the last evaluation in the file; 0 if there is none.
struct MetricsEnd {
  std::int64_t step = 0;
  std::int64_t evaluated = 0;
};
MetricsEnd metrics_end(const std::filesystem::path& path);

}  // namespace troupe::launch
