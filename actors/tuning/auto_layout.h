#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "actors/tuning/auto_change.h"

namespace troupe::actors {

/// The mind behind schedule.auto_layout: every so many steps it measures some, and orders another
/// split of the layers where the simulator finds one that is worth it; in the end it compares, and
/// takes back for good what has not made steps shorter. Rests while schedule.kind = "auto" chooses
/// and compares.
class AutoLayout final : public AutoChange {
 public:
  AutoLayout(RunSpec spec, Fits fits) : AutoChange(std::move(spec), std::move(fits)) {}

 private:
  bool wants_to_measure() const override;
  std::optional<Advice> decide(const Measured& measured) override;
  Advice judge(const GainCheck::Verdict& verdict) override;

  std::int64_t due_ = 0;               ///< no measurement before this step
  std::optional<ClusterShape> stays_;  ///< told that its layout stays
  std::vector<ClusterShape> taken_back_;
};

}  // namespace troupe::actors
