#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "actors/tuning/tuner.h"

namespace troupe::actors {

/// The tuner behind schedule.auto_layout. Every schedule.auto_layout_steps steps it measures some,
/// and orders another split of the layers if the simulator finds one that gains enough. Then it
/// compares, and permanently takes back a split that has not made steps shorter. It rests while the
/// tuner of schedule.kind = "auto" chooses and compares.
class AutoLayout final : public Tuner {
 public:
  AutoLayout(RunSpec spec, Fits fits) : Tuner(std::move(spec), std::move(fits)) {}

 private:
  bool wants_to_measure() const override;
  std::optional<Advice> decide(const Measured& measured) override;
  Advice judge(const GainCheck::Verdict& verdict) override;

  std::int64_t due_ = 0;               ///< step before which nothing is measured
  std::optional<ClusterShape> stays_;  ///< shape for which it has reported that the layout stays
  std::vector<ClusterShape> taken_back_;
};

}  // namespace troupe::actors
