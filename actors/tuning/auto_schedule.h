#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "actors/tuning/tuner.h"

namespace troupe::actors {

/// The tuner behind schedule.kind = "auto". While a configuration runs the provisional schedule of
/// "auto" it measures some steps, then orders the schedule that the simulator finds fastest, and
/// then compares: 1f1b permanently replaces a choice that has not made steps shorter.
class AutoSchedule final : public Tuner {
 public:
  AutoSchedule(RunSpec spec, Fits fits) : Tuner(std::move(spec), std::move(fits)) {}

 private:
  bool wants_to_measure() const override;
  std::optional<Advice> decide(const Measured& measured) override;
  Advice judge(const GainCheck::Verdict& verdict) override;

  std::optional<std::uint32_t> decided_;  ///< configuration in which it has decided
  std::optional<ClusterShape> plain_;     ///< shape of 1f1b at the decision
  std::vector<ClusterShape> taken_back_;
};

}  // namespace troupe::actors
