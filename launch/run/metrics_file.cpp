#include "launch/run/metrics_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "stages/storage/output_file.h"
#include "tensor/error.h"

namespace troupe::launch {
namespace {

std::string exact(double x) {
  return std::isfinite(x) ? fmt::format("{:.17g}", x) : "null";
}
std::string plain(double x) {
  return std::isfinite(x) ? fmt::format("{}", x) : "null";
}

/// Memory of a stage's GPU; empty on a CPU.
std::string device_fields(const actors::StepReport::StageTime& stage) {
  if (stage.device_total_bytes == 0) return "";
  return fmt::format(R"(,"device_used_bytes":{},"device_total_bytes":{})", stage.device_used_bytes,
                     stage.device_total_bytes);
}

/// The losses of a mixture's sources; empty without one.
std::string sources_field(const actors::StepReport& report) {
  std::string sources;
  for (const auto& source : report.sources)
    sources += fmt::format(R"({}{{"name":{},"loss":{},"tokens":{}}})", sources.empty() ? "" : ",",
                           nlohmann::json(source.name).dump(), exact(source.loss), source.tokens);
  return sources.empty() ? "" : fmt::format(R"("sources":[{}],)", sources);
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
  std::string stages;
  for (const auto& s : r.stages())
    stages += fmt::format(R"({}{{"replica":{},"stage":{},"shard":{},"busy_s":{},"idle_s":{},)"
                          R"("collective_s":{},"collective_share":{}{}}})",
                          stages.empty() ? "" : ",", s.replica, s.stage, s.shard, plain(s.busy_s),
                          plain(s.idle_s), plain(s.collective_s),
                          plain(r.step_s > 0 ? s.collective_s / r.step_s : 0), device_fields(s));
  std::string edges;
  for (const auto& e : r.edges())
    edges += fmt::format(R"({}{{"from":{},"to":{},"bytes":{}}})", edges.empty() ? "" : ",", e.from,
                         e.to, e.bytes);
  std::string collectives;
  for (const auto& c : r.collectives())
    collectives += fmt::format(
        R"({}{{"group":"{}","op":"{}","count":{},"bytes":{},"time_s":{},"exposed_s":{}}})",
        collectives.empty() ? "" : ",", c.group, c.operation, c.count, c.bytes, plain(c.time_s),
        plain(c.exposed_s));
  return fmt::format(
      R"({{"step":{},"loss":{},"grad_norm":{},"lr":{},"tokens":{},"first_sample":{},)"
      R"("tokens_per_s":{},"step_s":{},{}{})"
      R"("stages":[{}],"edges":[{}],"collectives":[{}]}})",
      r.step, exact(r.loss), exact(r.grad_norm), plain(r.lr), r.tokens, r.first_sample,
      plain(r.tokens_per_s()), plain(r.step_s), mfu ? fmt::format(R"("mfu":{},)", plain(*mfu)) : "",
      sources_field(r), stages, edges, collectives);
}

std::string metrics_line(const actors::EvalReport& r) {
  std::string sets;
  for (const auto& [name, loss] : r.sets)
    sets += fmt::format(R"({}{{"name":{},"loss":{}}})", sets.empty() ? "" : ",",
                        nlohmann::json(name).dump(), exact(loss));
  return fmt::format(R"({{"step":{},"eval_loss":{}{}}})", r.step, exact(r.loss),
                     sets.empty() ? "" : fmt::format(R"(,"sets":[{}])", sets));
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

std::int64_t last_metrics_step(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::int64_t last = 0;
  for (std::string line; std::getline(in, line);)
    if (const auto subject = subject_of(line)) last = std::max(last, subject->step);
  return last;
}

}  // namespace troupe::launch
