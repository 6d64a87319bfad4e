#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/topology/epoch.h"

namespace troupe::actors {

/// By how many percent a step became shorter.
double gain_percent(double old_step_s, double step_s);

/// A change that is to make steps shorter; tells whether it did, once enough have run in its shape.
/// The steps before it and since are compared by their ranks, so that neither some slow ones nor
/// the shape of the noise matter, and looked at a few times only: whatever the noise, a change that
/// makes steps no shorter is taken for one that does at most once in twenty.
class GainCheck {
 public:
  struct PredictedGain {
    std::string name;  ///< of what steps are compared under: "zb-h1", "layout 4,2"
    ClusterShape from, shape;
    double step_s = 0;              ///< predicted
    std::vector<double> old_steps;  ///< seconds of the steps before, measured alike
  };
  struct Verdict {
    enum Kind { faster, slower, unclear };
    PredictedGain predicted;
    Kind kind = unclear;
    std::vector<double> steps;  ///< seconds
    /// The change has shown that it is worth its place.
    bool is_gain() const { return kind == faster; }
    std::string text() const;
  };
  explicit GainCheck(PredictedGain predicted) : predicted_(std::move(predicted)) {}

  const PredictedGain& predicted() const { return predicted_; }
  /// Whether a run in this shape may yet show the predicted gain.
  bool is_about(const ClusterShape& shape) const {
    return shape == predicted_.shape || shape == predicted_.from;
  }
  /// An epoch begins: its first step pays for the start and counts for nothing.
  void begin() { is_first_ = true; }
  /// A step in the promised shape. The verdict once, as soon as it is sure, after kMostSteps at the
  /// latest.
  std::optional<Verdict> stepped(double seconds);

  static constexpr std::size_t kMostSteps = 48;

 private:
  PredictedGain predicted_;
  bool is_first_ = true;
  std::vector<double> steps_;
};

}  // namespace troupe::actors
