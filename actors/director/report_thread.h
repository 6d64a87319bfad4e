#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "actors/messages/order_queue.h"
#include "actors/topology/reports.h"

namespace troupe::actors {

/// Passes everything on to another observer from a thread of its own, in order: a slow disk or a
/// terminal that is held keeps nobody who reports from his work. What waits is kept in memory.
class ReportThread : public RunObserver {
 public:
  /// Both outlive it. `on_failure` is told what the observer throws, on the same thread.
  ReportThread(RunObserver& observer, std::function<void(const std::string&)> on_failure);
  ~ReportThread() override;
  ReportThread(const ReportThread&) = delete;

  void on_step(const StepReport& report) override;
  void on_eval(const EvalReport& report) override;
  void on_checkpoint(std::int64_t step, const std::string& path) override;
  void on_not_saved(std::int64_t step, const std::string& error) override;
  void on_scaled(const ClusterShape& shape) override;
  void on_event(const std::string& text) override;
  /// Once the observer has been told everything before.
  void then(std::function<void()> call);
  /// Returns when it has been told everything. Nothing may be reported after.
  void finish();

 private:
  void loop();

  RunObserver& observer_;
  const std::function<void(const std::string&)> on_failure_;
  OrderQueue<std::function<void()>> waiting_;  // an empty one: the end
  std::thread thread_;
};

}  // namespace troupe::actors
