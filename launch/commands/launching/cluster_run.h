#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/director/cluster.h"
#include "actors/topology/reports/reports.h"
#include "launch/commands/launching/sinks.h"
#include "launch/control/control_server.h"
#include "launch/host/console_writer.h"
#include "launch/host/machine.h"
#include "launch/host/signals.h"
#include "launch/manifest/toml/manifest.h"
#include "launch/run/run_directory.h"
#include "launch/run/run_log.h"

namespace troupe::launch {

/// The cluster of a run, with those who watch it and those who may give it orders: the page,
/// signals, the control socket. What it reports goes to the log while the run's directory is this
/// launcher's; once it is not, as somebody has removed, moved or replaced it, the run is stopped.
class ClusterRun : actors::RunObserver {
 public:
  /// What it works with, all of which outlives it.
  struct Means {
    const Manifest& manifest;
    const actors::RunSpec& spec;
    const PeakRate& peak;
    const Machine& machine;
    const RunDirectory& directory;
    RunLog& log;
    ControlServer& control;
    SignalWatch& signals;
    ConsoleWriter& console;
    std::shared_ptr<actors::Hosts> hosts;  ///< other hosts that take part; null: none
    std::function<void()> record_hosts;    ///< called when they have changed
    std::optional<actors::ClusterOptions::Predecessor> predecessor;
  };
  explicit ClusterRun(const Means& means) : with_(means) {}

  /// Runs to the end, after which signals order nothing, and returns how it ended: after
  /// `begins_after`, the last step that was committed before, if it never began.
  actors::Outcome run(std::int64_t begins_after);
  /// Whether a person or a program ordered it to stop.
  bool stopped() const { return stopped_; }
  /// Whether the run's directory is another's, or gone.
  bool fallen() const { return fallen_; }
  /// Whether it is another launcher's of the same run.
  bool has_other_launcher() const {
    return fallen_ && with_.directory.lost() && with_.directory.lost()->kind == ErrorKind::retry;
  }
  /// Shows the end to those who look at the page.
  void show_end(const actors::Outcome& outcome);

 private:
  actors::Outcome run_cluster();
  void stop(const std::string& reason);
  /// What the control socket and the page may ask and order.
  RunPort port();
  void serve_signals();
  nlohmann::json status();
  void save_at(const std::string& signal);
  bool stands();
  void on_step(const actors::StepReport& report) override {
    if (stands()) with_.log.on_step(report);
  }
  void on_step_again(const actors::StepReport& report, const actors::CatchUp& way) override {
    if (stands()) with_.log.on_step_again(report, way);
  }
  void on_eval(const actors::EvalReport& report) override {
    if (stands()) with_.log.on_eval(report);
  }
  void on_checkpoint(std::int64_t step, const std::string& path) override {
    if (stands()) with_.log.on_checkpoint(step, path);
  }
  void on_not_saved(std::int64_t step, const std::string& error) override {
    if (stands()) with_.log.on_not_saved(step, error);
  }
  void on_scaled(const actors::ClusterShape& shape, bool ordered) override {
    if (stands()) with_.log.on_scaled(shape, ordered);
  }
  void on_hosts() override;
  void on_event(const std::string& text) override {
    if (stands()) with_.log.on_event(text);
  }

  const Means with_;
  std::atomic<bool> stopped_ = false, fallen_ = false;
  // These outlive what serves signals and requests.
  std::unique_ptr<actors::Cluster> cluster_;
  std::optional<Sinks> sinks_;
};

}  // namespace troupe::launch
