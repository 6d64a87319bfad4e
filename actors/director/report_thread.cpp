#include "actors/director/report_thread.h"

#include <exception>
#include <utility>

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

}  // namespace troupe::actors
