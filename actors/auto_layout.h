#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "actors/auto_schedule.h"
#include "actors/gain_check.h"
#include "actors/step_meter.h"

namespace troupe::actors {

/// The mind behind schedule.auto_layout: every so many steps it measures some, and orders another
/// split of the layers where the simulator finds one that is worth it; in the end it compares.
/// Rests while schedule.kind = "auto" chooses. As AutoSchedule otherwise.
class AutoLayout {
 public:
  using Advice = AutoSchedule::Advice;
  AutoLayout(RunSpec spec, AutoSchedule::Fits fits)
      : spec_(std::move(spec)), fits_(std::move(fits)) {}

  void begin(const Epoch& epoch);
  std::optional<Advice> traced(const TracedActions& actions);
  std::optional<Advice> stepped(std::uint32_t epoch, std::int64_t step, double seconds);
  /// Whether it wants the times of actions.
  bool measures() const { return meter_.has_value(); }

 private:
  bool has_choice() const;
  void measure_if_due();
  std::optional<Advice> decide();

  const RunSpec spec_;
  const AutoSchedule::Fits fits_;
  Epoch epoch_;
  std::int64_t step_ = 0;  ///< the last one
  std::int64_t due_ = 0;   ///< no measurement before this step
  bool told_ = false;      ///< that the epoch's layout stays
  std::optional<StepMeter> meter_;
  std::optional<GainCheck> check_;
};

}  // namespace troupe::actors
