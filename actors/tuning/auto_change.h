#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "actors/topology/scale.h"
#include "actors/tuning/gain_check.h"
#include "actors/tuning/step_meter.h"

namespace troupe::actors {

/// What the minds behind schedule.kind = "auto" and schedule.auto_layout share: they measure some
/// steps of an epoch, order a change, and in the end compare. They hear what happens, and say what
/// to tell people and what to order; no clock, no I/O.
class AutoChange {
 public:
  using Fits = std::function<bool(const ClusterShape& now, const ClusterShape& next)>;
  struct Advice {
    std::string text;
    std::optional<ScaleRequest> order;
  };

  virtual ~AutoChange() = default;
  /// Another one measures or compares: a change of one's own would spoil that.
  void rest(bool rests) { rests_ = rests; }
  /// All ranks are told of an epoch. What was measured before counts no more.
  void begin(const Epoch& epoch);
  /// Actions of one rank, of a step of any epoch.
  std::optional<Advice> traced(const TracedActions& actions);
  /// A step is committed.
  std::optional<Advice> stepped(std::uint32_t epoch, std::int64_t step, double seconds);
  /// Whether it wants the times of actions: to measure them, or because the steps that it compares
  /// with were recorded too.
  bool measures() const { return meter_.has_value() || compares(); }

 protected:
  /// `fits`: whether memory holds a shape, beside the one that gives it its state.
  AutoChange(RunSpec spec, Fits fits) : spec_(std::move(spec)), fits_(std::move(fits)) {}
  const RunSpec& spec() const { return spec_; }
  const Epoch& epoch() const { return epoch_; }
  const ClusterShape& shape() const { return epoch_.shape; }
  std::int64_t step() const { return step_; }  ///< the last one
  bool fits(const ClusterShape& next) const { return fits_(shape(), next); }
  /// What steps are to be compared with once the order is carried out.
  void predict(GainCheck::PredictedGain predicted) { check_.emplace(std::move(predicted)); }

 private:
  /// Asked when an epoch begins and after each of its steps, unless it measures or compares.
  virtual bool wants_to_measure() const = 0;
  virtual std::optional<Advice> decide(const Measured& measured) = 0;
  /// Whether the predicted gain was shown.
  virtual Advice judge(const GainCheck::Verdict& verdict) = 0;

  /// What was ordered has come, and its steps are counted.
  bool compares() const { return check_ && check_->predicted().shape == shape(); }
  void measure_if_wanted();
  std::optional<Advice> decide_if_measured();

  const RunSpec spec_;
  const Fits fits_;
  Epoch epoch_;
  std::int64_t step_ = 0;
  bool rests_ = false;
  std::optional<StepMeter> meter_;  ///< while there is something to measure
  std::optional<GainCheck> check_;  ///< of what was ordered
};

}  // namespace troupe::actors
