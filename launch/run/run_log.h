#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/topology/reports/reports.h"
#include "actors/topology/run_spec.h"
#include "launch/host/console_writer.h"
#include "launch/manifest/inputs/peak_rate.h"
#include "launch/run/metrics_file.h"
#include "launch/run/step_times.h"

namespace spdlog {
class logger;
}

namespace troupe::launch {

/// The console line of a step: step, loss, norm, lr, tokens/s, time left.
std::string step_line(const actors::StepReport& report, std::int64_t max_steps, double left_s);

/// The console line of a step that is computed again: step, tokens/s, time left to the newest one.
std::string step_again_line(const actors::StepReport& report, const actors::CatchUp& way,
                            double left_s);

/// Records what a run reports: every step in metrics.jsonl, every monitor.log_interval-th one also
/// on the console, everything else in logs/launcher.log. Events that a person should see also go to
/// the console.
class RunLog : public actors::RunObserver {
 public:
  /// The cluster has this shape from this step on; RunObserver::on_scaled() tells `ordered`.
  using OnScaled =
      std::function<void(const actors::ClusterShape&, std::int64_t step, bool ordered)>;
  using OnSaved = std::function<void(std::int64_t step, const std::string& path)>;
  /// `console` must outlive the log.
  RunLog(const actors::RunSpec& spec, const PeakRate& peak, ConsoleWriter& console,
         OnScaled on_scaled, OnSaved on_saved);
  ~RunLog() override;

  void on_step(const actors::StepReport& report) override;
  void on_step_again(const actors::StepReport& report, const actors::CatchUp& way) override;
  void on_eval(const actors::EvalReport& report) override;
  void on_checkpoint(std::int64_t step, const std::string& path) override;
  void on_not_saved(std::int64_t step, const std::string& error) override;
  void on_scaled(const actors::ClusterShape& shape, bool ordered) override;
  void on_event(const std::string& text) override;

  /// Writes a line to the launcher's log only.
  void note(const std::string& text);
  /// The newest step's loss and speed, and the time that the remaining steps will take.
  struct Pace {
    double loss = 0;
    double tokens_per_s = 0;
    double left_s = 0;                    ///< time until the end of the run's last step
    std::optional<double> mfu = {};       ///< PeakRate::utilization()
    std::uint64_t device_used_bytes = 0;  ///< of the GPUs of all ranks; 0 on CPUs
    std::uint64_t device_total_bytes = 0;
    std::vector<actors::StepReport::SourceLoss> sources = {};  ///< StepReport::sources
  };
  /// The pace of the step that was committed last, be it one that was computed again; none before
  /// the first step of this launch. Callable from any thread.
  std::optional<Pace> pace() const;
  /// The path of the newest checkpoint of this launch; empty before the first.
  const std::string& checkpoint() const { return checkpoint_; }
  /// Called when the run is over. Writes the lines that were kept because the disk was full, if
  /// there is room now.
  void finish();
  /// What cannot be written to disk at the moment, a line for each. Callable from any thread.
  std::vector<std::string> troubles() const;

 private:
  enum class Trouble { metrics, checkpoint, manifest };
  /// Takes up the pace of a step. Returns whether it is the first of this launch.
  bool keep_pace(const actors::StepReport& report, std::optional<double> mfu);
  bool set_trouble(Trouble trouble, const std::string& text);
  void record(const std::string& line);

  ConsoleWriter& console_;
  const PeakRate peak_;
  const OnScaled on_scaled_;
  const OnSaved on_saved_;
  const std::int64_t max_steps_;
  const std::int64_t log_interval_;
  MetricsFile metrics_;
  std::unique_ptr<spdlog::logger> log_;
  std::once_flag log_fails_;
  StepTimes step_times_;
  std::string checkpoint_;
  std::int64_t step_ = 0;  ///< the newest that was reported
  mutable std::mutex mutex_;
  std::map<Trouble, std::string> troubles_;
  std::optional<Pace> pace_;
};

}  // namespace troupe::launch
