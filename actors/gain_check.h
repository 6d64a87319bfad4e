#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/epoch.h"

namespace troupe::actors {

/// By how many percent a step became shorter.
double gain_percent(double old_step_s, double step_s);

/// A change that is to make steps shorter; tells whether it did, once some have run in its shape.
class GainCheck {
 public:
  struct Promise {
    std::string name;  ///< of what steps are compared under: "zb-h1", "layout 4,2"
    Shape from, shape;
    double step_s = 0;      ///< predicted
    double old_step_s = 0;  ///< measured before
  };
  struct Verdict {
    Promise promise;
    double step_s = 0;   ///< measured
    double least_s = 0;  ///< of one of the steps
    /// One slow step may have any cause: all of them took longer than before.
    bool is_loss() const { return least_s > promise.old_step_s; }
    std::string text() const;
  };
  explicit GainCheck(Promise promise) : promise_(std::move(promise)) {}

  const Promise& promise() const { return promise_; }
  /// Whether a run in this shape may yet fulfil the promise.
  bool is_about(const Shape& shape) const {
    return shape == promise_.shape || shape == promise_.from;
  }
  /// A step in the promised shape. The verdict once as many have run as a StepMeter takes, but the
  /// first.
  std::optional<Verdict> stepped(double seconds);

 private:
  Promise promise_;
  std::vector<double> steps_;
};

}  // namespace troupe::actors
