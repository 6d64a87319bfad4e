#include "launch/run/metrics_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "stages/storage/output_file.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

using nlohmann::ordered_json;

/// The text of a value. Numbers are not as nlohmann writes them, who adds ".0" to a whole one: they
/// have as few digits as hold them, but losses and norms all 17.
std::string text_in_line(const ordered_json& value, std::string_view key = {}) {
  if (value.is_structured()) {
    std::vector<std::string> parts;
    for (const auto& [name, part] : value.items())
      parts.push_back((value.is_object() ? ordered_json(name).dump() + ":" : "") +
                      text_in_line(part, name));
    const std::string inner = fmt::format("{}", fmt::join(parts, ","));
    return value.is_object() ? "{" + inner + "}" : "[" + inner + "]";
  }
  if (!value.is_number_float() || !std::isfinite(value.get<double>())) return value.dump();
  const bool exact = key == "loss" || key == "aux_loss" || key == "grad_norm" || key == "eval_loss";
  return fmt::format(fmt::runtime(exact ? "{:.17g}" : "{}"), value.get<double>());
}

/// What a line of the file is about; none for an incomplete line.
struct Subject {
  std::int64_t step = 0;
  bool evaluation = false;
};
std::optional<Subject> subject_of(const std::string& line) {
  const nlohmann::json fields = nlohmann::json::parse(line, nullptr, false);
  if (!fields.is_object() || !fields.contains("step") || !fields["step"].is_number_integer())
    return std::nullopt;
  return Subject{.step = fields["step"], .evaluation = fields.contains("eval_loss")};
}

}  // namespace

std::string metrics_line(const actors::StepReport& r, std::optional<double> mfu) {
  ordered_json line{{"step", r.step},
                    {"loss", r.loss},
                    {"grad_norm", r.grad_norm},
                    {"lr", r.lr},
                    {"tokens", r.tokens},
                    {"first_sample", r.first_sample},
                    {"tokens_per_s", r.tokens_per_s()},
                    {"step_s", r.step_s}};
  if (mfu) line["mfu"] = *mfu;
  if (!r.routers.empty()) line["aux_loss"] = r.aux_loss;
  if (!r.sources.empty()) line["sources"] = r.sources;
  if (!r.routers.empty()) line["routers"] = r.routers;
  line["stages"] = ordered_json::array();
  line["edges"] = ordered_json::array();
  for (actors::StepReport::StageTime stage : r.stages()) {
    const ordered_json whole = stage;
    stage.device_used_bytes = stage.device_total_bytes = 0;  // these come last
    ordered_json row = stage;
    row["collective_share"] = r.step_s > 0 ? stage.collective_s / r.step_s : 0;
    row.update(whole);
    line["stages"].push_back(std::move(row));
  }
  for (const auto& edge : r.edges())
    line["edges"].push_back({{"from", edge.from}, {"to", edge.to}, {"bytes", edge.bytes}});
  line["collectives"] = r.collectives();
  return text_in_line(line);
}

std::string metrics_line(const actors::EvalReport& r) {
  ordered_json line{{"step", r.step}, {"eval_loss", r.loss}};
  if (!r.sets.empty()) line["sets"] = r.sets;
  return text_in_line(line);
}

MetricsFile::MetricsFile(const std::filesystem::path& path)
    : path_(path), fd_(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644)) {
  if (fd_ < 0)
    throw Error(ErrorKind::data,
                fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
}

MetricsFile::~MetricsFile() {
  close(fd_);
}

std::string MetricsFile::append(const std::string& line) {
  if (unwritten_.size() + line.size() < kMaxUnwritten) unwritten_ += line + "\n";
  return flush();
}

std::string MetricsFile::flush() {
  if (write_out()) return "";
  return fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno));
}

/// Writes all kept lines or none: after a write that failed half way the file is truncated to its
/// old size.
bool MetricsFile::write_out() {
  const off_t begin = lseek(fd_, 0, SEEK_END);
  std::string_view rest = unwritten_;
  while (!rest.empty()) {
    const ssize_t put = write(fd_, rest.data(), rest.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      const int why = errno;
      if (begin >= 0) [[maybe_unused]]
        const int cut = ftruncate(fd_, begin);
      errno = why;
      return false;
    }
    rest.remove_prefix(static_cast<std::size_t>(put));
  }
  unwritten_.clear();
  return true;
}

void cut_back_metrics(const std::filesystem::path& path, std::int64_t step) {
  std::ifstream in(path);
  if (!in) return;
  stages::PublishedFile kept(path);
  std::int64_t last_step = -1;
  std::int64_t last_evaluation = -1;
  for (std::string line; std::getline(in, line);) {
    const auto subject = subject_of(line);
    if (!subject || subject->step > step) continue;
    std::int64_t& last = subject->evaluation ? last_evaluation : last_step;
    if (subject->step <= last) continue;
    last = subject->step;
    kept.file().write(line + "\n");
  }
  kept.publish();
}

MetricsEnd metrics_end(const std::filesystem::path& path) {
  std::ifstream in(path);
  MetricsEnd end;
  for (std::string line; std::getline(in, line);)
    if (const auto subject = subject_of(line)) {
      std::int64_t& last = subject->evaluation ? end.evaluated : end.step;
      last = std::max(last, subject->step);
    }
  return end;
}

}  // namespace troupe::launch
