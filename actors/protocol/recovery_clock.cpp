#include "actors/protocol/recovery_clock.h"

#include <algorithm>
#include <utility>

namespace troupe::actors {
namespace {

using Phases = RecoveryPhases;

double seconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace

/// Ends the phase that is under way, or begins the change with this one.
void RecoveryClock::enter(double Phases::*next, Time when) {
  if (!begin_)
    begin_ = entered_ = when;
  else
    report_.phases.*phase_ += seconds(when - entered_);
  entered_ = when;
  phase_ = next;
}

bool RecoveryClock::computes() const {
  return phase_ == &Phases::catch_up_s || phase_ == &Phases::first_step_s;
}

std::optional<double> RecoveryClock::lost(Time sign, int rank, const std::string& cause) {
  if (report_.losses++ == 0) {
    report_.recovery = true;
    report_.cause = cause;
    report_.rank = rank;
  }
  if (begin_ && !computes()) return std::nullopt;
  enter(&Phases::detect_s, begin_ ? std::max(sign, entered_) : sign);
  const Time noticed = now();
  enter(&Phases::decide_s, noticed);
  return seconds(noticed - sign);
}

void RecoveryClock::halting(const std::string& order, const std::string& reason) {
  if (!begin_) enter(&Phases::decide_s, now());
  if (report_.cause.empty()) report_.cause = reason;
  report_.order = order;
  enter(&Phases::spawn_s, now());
}

void RecoveryClock::begins(const std::string& from) {
  if (report_.from.empty() || from != "memory") report_.from = from;
  if (phase_ == &Phases::decide_s) phase_ = &Phases::spawn_s;  // nobody was left to halt
  enter(&Phases::move_s, now());
}

void RecoveryClock::reached(double move_s, bool catches_up) {
  const Time when = now();
  const double both = seconds(when - entered_), move = std::min(move_s, both);
  report_.phases.move_s += move;
  report_.phases.rebuild_s += both - move;
  entered_ = when;
  phase_ = catches_up ? &Phases::catch_up_s : &Phases::first_step_s;
}

void RecoveryClock::caught_up() {
  enter(&Phases::first_step_s, now());
}

ChangeReport RecoveryClock::finish() {
  const Time end = now();
  enter(nullptr, end);
  report_.stall_s = seconds(end - *std::exchange(begin_, std::nullopt));
  return std::exchange(report_, {});
}

}  // namespace troupe::actors
