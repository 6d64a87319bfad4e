#include "actors/director/report_thread.h"

#include <exception>
#include <utility>

#include "actors/topology/configuration.h"

namespace troupe::actors {

ReportThread::ReportThread(RunObserver& observer,
                           std::function<void(const std::string&)> on_failure)
    : observer_(observer), on_failure_(std::move(on_failure)), thread_([this] { loop(); }) {}

ReportThread::~ReportThread() {
  finish();
}

void ReportThread::finish() {
  if (!thread_.joinable()) return;
  waiting_.push({});
  thread_.join();
}

void ReportThread::loop() {
  while (const std::function<void()> call = waiting_.pop()) {
    try {
      call();
    } catch (const std::exception& error) {
      on_failure_(error.what());
    }
  }
}

void ReportThread::then(std::function<void()> call) {
  waiting_.push(std::move(call));
}

void ReportThread::on_step(const StepReport& report) {
  then([this, report] { observer_.on_step(report); });
}

void ReportThread::on_step_again(const StepReport& report, const CatchUp& way) {
  then([this, report, way] { observer_.on_step_again(report, way); });
}

void ReportThread::on_eval(const EvalReport& report) {
  then([this, report] { observer_.on_eval(report); });
}

void ReportThread::on_checkpoint(std::int64_t step, const std::string& path) {
  then([this, step, path] { observer_.on_checkpoint(step, path); });
}

void ReportThread::on_not_saved(std::int64_t step, const std::string& error) {
  then([this, step, error] { observer_.on_not_saved(step, error); });
}

void ReportThread::on_scaled(const ClusterShape& shape, bool ordered) {
  then([this, shape, ordered] { observer_.on_scaled(shape, ordered); });
}

void ReportThread::on_event(const std::string& text) {
  then([this, text] { observer_.on_event(text); });
}

}  // namespace troupe::actors
