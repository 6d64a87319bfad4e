#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "actors/tuning/auto_change.h"

namespace troupe::actors {

/// The mind behind schedule.kind = "auto": while an epoch's schedule is that guess it measures some
/// steps, then orders the schedule that the simulator finds fastest, and in the end compares: 1f1b
/// takes the place of a choice that has not made steps shorter, for good.
class AutoSchedule final : public AutoChange {
 public:
  AutoSchedule(RunSpec spec, Fits fits) : AutoChange(std::move(spec), std::move(fits)) {}

 private:
  bool wants_to_measure() const override;
  std::optional<Advice> decide(const Measured& measured) override;
  Advice judge(const GainCheck::Verdict& verdict) override;

  std::optional<std::uint32_t> decided_;  ///< the epoch in which it did
  std::optional<ClusterShape> plain_;     ///< 1f1b, of the decision
  std::vector<ClusterShape> taken_back_;
};

}  // namespace troupe::actors
