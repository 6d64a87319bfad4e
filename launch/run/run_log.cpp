#include "launch/run/run_log.h"

#include <fmt/format.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>

#include <cmath>
#include <utility>

#include "launch/host/quantities.h"
#include "launch/run/run_directory.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

std::unique_ptr<spdlog::logger> open_log(const std::filesystem::path& path) {
  auto log = std::make_unique<spdlog::logger>(
      "launcher", std::make_shared<spdlog::sinks::basic_file_sink_mt>(path.string()));
  log->set_pattern("%Y-%m-%d %H:%M:%S.%e %z %l %v");
  log->flush_on(spdlog::level::info);
  return log;
}

}  // namespace

std::string step_line(const actors::StepReport& r, std::int64_t max_steps, double left_s) {
  return fmt::format("step {}/{}  loss {:.4f}  norm {:.3f}  lr {:.2e}  {} tokens/s  {} left\n",
                     r.step, max_steps, r.loss, r.grad_norm, r.lr,
                     grouped(std::llround(r.tokens_per_s())), duration_text(left_s));
}

std::string step_again_line(const actors::StepReport& r, const actors::CatchUp& way,
                            double left_s) {
  return fmt::format("catching up  step {} of {} again  {} tokens/s  {} left\n", r.step,
                     way.reached, grouped(std::llround(r.tokens_per_s())), duration_text(left_s));
}

RunLog::RunLog(const actors::RunSpec& spec, const PeakRate& peak, ConsoleWriter& console,
               OnScaled on_scaled, OnSaved on_saved)
    : console_(console),
      peak_(peak),
      on_scaled_(std::move(on_scaled)),
      on_saved_(std::move(on_saved)),
      max_steps_(spec.max_steps),
      log_interval_(spec.log_interval),
      metrics_(std::filesystem::path(spec.dir) / kMetricsFile),
      log_(open_log(std::filesystem::path(spec.dir) / kLauncherLog)) {
  log_->set_error_handler([this](const std::string& error) {
    std::call_once(log_fails_, [&] { console_.show(error + "; the run goes on\n"); });
  });
}

RunLog::~RunLog() = default;

void RunLog::on_step(const actors::StepReport& report) {
  const std::optional<double> mfu =
      peak_.utilization(report, static_cast<double>(report.stages().size()));
  record(metrics_line(report, mfu));
  const bool first = keep_pace(report, mfu);
  if (first || report.step % log_interval_ == 0 || report.step == max_steps_)
    console_.show(step_line(report, max_steps_, step_times_.left_s(max_steps_ - report.step)));
}

void RunLog::on_step_again(const actors::StepReport& report, const actors::CatchUp& way) {
  keep_pace(report, peak_.utilization(report, static_cast<double>(report.stages().size())));
  if (report.step % log_interval_ == 0 || report.step == way.reached)
    console_.show(step_again_line(report, way, step_times_.left_s(way.reached - report.step)));
}

bool RunLog::keep_pace(const actors::StepReport& report, std::optional<double> mfu) {
  step_times_.add(report.step_s);
  step_ = report.step;
  Pace pace{.loss = report.loss,
            .tokens_per_s = report.tokens_per_s(),
            .left_s = step_times_.left_s(max_steps_ - report.step),
            .mfu = mfu,
            .sources = report.sources};
  for (const auto& stage : report.stages()) {
    pace.device_used_bytes += stage.device_used_bytes;
    pace.device_total_bytes += stage.device_total_bytes;
  }
  const std::lock_guard lock(mutex_);
  return !std::exchange(pace_, pace);
}

std::optional<RunLog::Pace> RunLog::pace() const {
  const std::lock_guard lock(mutex_);
  return pace_;
}

void RunLog::on_eval(const actors::EvalReport& report) {
  record(metrics_line(report));
  console_.show(fmt::format("step {}/{}  eval loss {}\n", report.step, max_steps_,
                            actors::losses_text(report.loss, report.sets)));
}

void RunLog::on_checkpoint(std::int64_t step, const std::string& path) {
  checkpoint_ = path;
  set_trouble(Trouble::checkpoint, "");
  note(fmt::format("checkpoint of step {} saved: {}", step, path));
  on_saved_(step, path);
}

void RunLog::on_not_saved(std::int64_t step, const std::string& error) {
  const std::string text = fmt::format("step {} could not be saved: {}", step, error);
  set_trouble(Trouble::checkpoint, text);
  on_event(text);
}

void RunLog::on_scaled(const actors::ClusterShape& shape, bool ordered) {
  step_times_.forget_earlier();
  try {
    on_scaled_(shape, step_, ordered);
    set_trouble(Trouble::manifest, "");
  } catch (const Error& error) {
    set_trouble(Trouble::manifest, error.what());
    on_event(fmt::format("{}; a resumed run begins in the shape that it had before", error.what()));
  }
}

void RunLog::on_event(const std::string& text) {
  note(text);
  console_.show(text + "\n");
}

/// Appends a line to metrics.jsonl. A failure does not end the run; it is reported when it begins
/// and when it ends.
void RunLog::record(const std::string& line) {
  const std::string trouble = metrics_.append(line);
  if (!set_trouble(Trouble::metrics, trouble)) return;
  on_event(trouble.empty() ? "metrics.jsonl is written again"
                           : trouble + "; the run goes on and keeps the lines until there is room");
}

void RunLog::finish() {
  set_trouble(Trouble::metrics, metrics_.flush());
}

std::vector<std::string> RunLog::troubles() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> texts;
  for (const auto& [trouble, text] : troubles_) texts.push_back(text);
  return texts;
}

/// Records that a trouble exists, or, with an empty text, that it is over. Returns true if it has
/// just begun or ended.
bool RunLog::set_trouble(Trouble trouble, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (text.empty()) return troubles_.erase(trouble) > 0;
  return troubles_.insert_or_assign(trouble, text).second;
}

void RunLog::note(const std::string& text) {
  log_->info("{}", text);
}

}  // namespace troupe::launch
