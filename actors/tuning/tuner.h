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

/// The common base of the tuners behind schedule.kind = "auto" and schedule.auto_layout: a tuner
/// measures some steps of a configuration, orders a change of shape, and then compares the steps
/// before and after it. It is called with what happens and returns advice, a text for people and an
/// order; it reads no clock and does no I/O.
class Tuner {
 public:
  using Fits = std::function<bool(const ClusterShape& now, const ClusterShape& next)>;
  struct Advice {
    std::string text;
    std::optional<ScaleRequest> order;
  };

  virtual ~Tuner() = default;
  /// Tells whether another tuner measures or compares. Meanwhile this one rests, because a change
  /// would spoil the other's times.
  void rest(bool rests) { rests_ = rests; }
  /// Called when a configuration begins. What was measured before it no longer counts.
  void begin(const Configuration& configuration);
  /// Called with one rank's actions of a step of any configuration.
  std::optional<Advice> traced(const TracedActions& actions);
  /// Called when a step is committed.
  std::optional<Advice> stepped(std::uint32_t configuration, std::int64_t step, double seconds);
  /// Whether the tuner wants the times of actions: to measure them, or because it compares with
  /// steps during which they were recorded too.
  bool measures() const { return meter_.has_value() || compares(); }

 protected:
  /// `fits` tells whether memory has room for a new shape while the current one still exists.
  Tuner(RunSpec spec, Fits fits) : spec_(std::move(spec)), fits_(std::move(fits)) {}
  const RunSpec& spec() const { return spec_; }
  const Configuration& configuration() const { return configuration_; }
  const ClusterShape& shape() const { return configuration_.shape; }
  std::int64_t step() const { return step_; }  ///< last committed step
  bool fits(const ClusterShape& next) const { return fits_(shape(), next); }
  /// Sets the prediction with which steps are compared once the order is carried out.
  void predict(GainCheck::PredictedGain predicted) { check_.emplace(std::move(predicted)); }

 private:
  /// Whether to measure now. Asked when a configuration begins and after each of its steps, unless
  /// the tuner measures or compares already.
  virtual bool wants_to_measure() const = 0;
  virtual std::optional<Advice> decide(const Measured& measured) = 0;
  /// What follows from the comparison with the predicted gain.
  virtual Advice judge(const GainCheck::Verdict& verdict) = 0;

  /// Whether the ordered shape is the current one, so that its steps are compared.
  bool compares() const { return check_ && check_->predicted().shape == shape(); }
  void measure_if_wanted();
  std::optional<Advice> decide_if_measured();

  const RunSpec spec_;
  const Fits fits_;
  Configuration configuration_;
  std::int64_t step_ = 0;
  bool rests_ = false;
  std::optional<StepMeter> meter_;  ///< exists while the tuner measures
  std::optional<GainCheck> check_;  ///< compares the ordered shape with the one before
};

}  // namespace troupe::actors
