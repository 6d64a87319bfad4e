#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/topology/configuration.h"

namespace troupe::actors {

/// The percentage by which a step became shorter.
double gain_percent(double old_step_s, double step_s);

/// Tells whether a change of shape has made steps shorter, once enough steps have run in the new
/// shape. The step times before and after are compared by a rank sum test, so that neither a few
/// slow steps nor the distribution of the noise matter. They are tested only a few times, so that a
/// change that does not make steps shorter is taken for one that does with a probability of at most
/// 1/20, whatever the noise.
class GainCheck {
 public:
  struct PredictedGain {
    std::string name;  ///< name of the change for messages: "zb-h1", "layout 4,2"
    ClusterShape from, shape;
    double step_s = 0;              ///< predicted seconds of a step
    std::vector<double> old_steps;  ///< seconds of each step before, measured in the same way
  };
  struct Verdict {
    enum Kind { faster, slower, unclear };
    PredictedGain predicted;
    Kind kind = unclear;
    std::vector<double> steps;  ///< seconds of each step in the new shape
    /// Whether the change has been shown to make steps shorter.
    bool is_gain() const { return kind == faster; }
    std::string text() const;
  };
  explicit GainCheck(PredictedGain predicted) : predicted_(std::move(predicted)) {}

  const PredictedGain& predicted() const { return predicted_; }
  /// Whether `shape` is one of the two compared shapes, so that the check is still of use.
  bool is_about(const ClusterShape& shape) const {
    return shape == predicted_.shape || shape == predicted_.from;
  }
  /// Called when a configuration begins. Its first step includes the start and is not counted.
  void begin() { is_first_ = true; }
  /// Called for each step in the new shape. Returns the verdict once: as soon as it is significant,
  /// and after kMostSteps steps at the latest.
  std::optional<Verdict> stepped(double seconds);

  static constexpr std::size_t kMostSteps = 48;

 private:
  PredictedGain predicted_;
  bool is_first_ = true;
  std::vector<double> steps_;
};

}  // namespace troupe::actors
