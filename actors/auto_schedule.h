#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "actors/gain_check.h"
#include "actors/scale.h"
#include "actors/schedule_choice.h"
#include "actors/schedule_kinds.h"
#include "actors/step_meter.h"

namespace troupe::actors {

/// The mind behind schedule.kind = "auto": while an epoch's schedule is that guess it measures some
/// steps, then orders the schedule that the simulator finds fastest, and in the end compares. Hears
/// what happens, says what to tell people and what to order; no clock, no I/O.
class AutoSchedule {
 public:
  using Fits = std::function<bool(const Shape& now, const Shape& next)>;
  /// `fits`: whether memory holds a shape, beside the one that gives it its state.
  AutoSchedule(RunSpec spec, Fits fits) : spec_(std::move(spec)), fits_(std::move(fits)) {}

  struct Advice {
    std::string text;
    std::optional<ScaleRequest> order;
  };
  /// All ranks are told of an epoch. What was measured before counts no more.
  void begin(const Epoch& epoch);
  /// Actions of one rank, of a step of any epoch.
  std::optional<Advice> traced(const TracedActions& actions);
  /// A step is committed.
  std::optional<Advice> stepped(std::uint32_t epoch, std::int64_t step, double seconds);
  /// Whether it wants the times of actions.
  bool measures() const { return meter_.has_value(); }

 private:
  std::optional<Advice> decide();

  const RunSpec spec_;
  const Fits fits_;
  Epoch epoch_;
  std::optional<StepMeter> meter_;  ///< while there is something to measure
  std::optional<GainCheck> check_;  ///< of what was chosen
};

}  // namespace troupe::actors
