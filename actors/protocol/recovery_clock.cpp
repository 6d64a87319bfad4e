#include "actors/protocol/recovery_clock.h"

#include <algorithm>
#include <utility>

namespace troupe::actors {
namespace {

double seconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace

std::optional<double> RecoveryClock::lost(Time sign, int rank, const std::string& cause) {
  ++report_.losses;
  if (report_.recovery) return std::nullopt;
  if (!begin_) begin_ = sign;
  noticed_ = decided_ = now();
  report_.recovery = true;
  report_.cause = cause;
  report_.rank = rank;
  report_.phases.detect_s = seconds(noticed_ - sign);
  return report_.phases.detect_s;
}

void RecoveryClock::halting(const std::string& order, const std::string& reason) {
  if (!begin_) begin_ = noticed_ = now();
  if (!report_.recovery) report_.cause = reason;
  report_.planned = !order.empty();
  report_.order = order;
  decided_ = now();
  report_.phases.decide_s = seconds(decided_ - noticed_);
}

void RecoveryClock::begins(const std::string& from) {
  report_.from = from;
  gathered_ = now();
  report_.phases.spawn_s = seconds(gathered_ - decided_);
}

void RecoveryClock::reached(double move_s) {
  reached_ = now();
  report_.phases.move_s = move_s;
  report_.phases.rebuild_s = std::max(0.0, seconds(reached_ - gathered_) - move_s);
}

ChangeReport RecoveryClock::finish() {
  const Time end = now();
  report_.phases.first_step_s = seconds(end - reached_);
  report_.stall_s = seconds(end - *std::exchange(begin_, std::nullopt));
  return std::exchange(report_, {});
}

}  // namespace troupe::actors
