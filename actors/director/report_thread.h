#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "actors/messages/order_queue.h"
#include "actors/topology/configuration.h"
#include "actors/topology/reports/reports.h"

namespace troupe::actors {

/// Passes all reports to another observer, in order, from a thread of its own: a slow disk or a
/// stopped terminal does not delay the threads that report. Waiting reports are kept in memory.
class ReportThread : public RunObserver {
 public:
  /// Both arguments outlive the object. `on_failure` is called, on its thread, with the text of
  /// what the observer throws.
  ReportThread(RunObserver& observer, std::function<void(const std::string&)> on_failure);
  ~ReportThread() override;
  ReportThread(const ReportThread&) = delete;

  void on_step(const StepReport& report) override { pass<&RunObserver::on_step>(report); }
  void on_step_again(const StepReport& report, const CatchUp& way) override {
    pass<&RunObserver::on_step_again>(report, way);
  }
  void on_eval(const EvalReport& report) override { pass<&RunObserver::on_eval>(report); }
  void on_checkpoint(std::int64_t step, const std::string& path) override {
    pass<&RunObserver::on_checkpoint>(step, path);
  }
  void on_not_saved(std::int64_t step, const std::string& error) override {
    pass<&RunObserver::on_not_saved>(step, error);
  }
  void on_scaled(const ClusterShape& shape, bool ordered) override {
    pass<&RunObserver::on_scaled>(shape, ordered);
  }
  void on_hosts() override { pass<&RunObserver::on_hosts>(); }
  void on_event(const std::string& text) override { pass<&RunObserver::on_event>(text); }
  /// Runs `call` once the observer has received everything reported before.
  void then(std::function<void()> call) { waiting_.push(std::move(call)); }
  /// Returns when the observer has received everything. Nothing may be reported afterwards.
  void finish();

 private:
  void loop();
  template <auto kReport, typename... Values>
  void pass(const Values&... values) {
    then([this, values...] { (observer_.*kReport)(values...); });
  }

  RunObserver& observer_;
  const std::function<void(const std::string&)> on_failure_;
  OrderQueue<std::function<void()>> waiting_;  // calls that wait; an empty function ends the thread
  std::thread thread_;
};

}  // namespace troupe::actors
