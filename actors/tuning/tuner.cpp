#include "actors/tuning/tuner.h"

#include <map>
#include <utility>

namespace troupe::actors {

void Tuner::begin(const Configuration& configuration) {
  configuration_ = configuration;
  meter_.reset();
  if (check_ && !check_->is_about(configuration.shape))
    check_.reset();  // the cluster has taken on another shape than the ordered one
  if (check_) check_->begin();
  measure_if_wanted();
}

void Tuner::measure_if_wanted() {
  if (rests_ || meter_ || compares() || !wants_to_measure()) return;
  std::map<int, std::string> hosts;
  for (const auto& [rank, member] : configuration_.members) hosts[rank] = member.host;
  meter_.emplace(shape(), std::move(hosts));
}

std::optional<Tuner::Advice> Tuner::traced(const TracedActions& actions) {
  if (actions.configuration != configuration_.number || !meter_) return std::nullopt;
  meter_->add(actions);
  return decide_if_measured();
}

std::optional<Tuner::Advice> Tuner::stepped(std::uint32_t configuration, std::int64_t step,
                                            double seconds) {
  if (configuration != configuration_.number) return std::nullopt;
  step_ = step;
  if (meter_) {
    meter_->add(step, seconds);
    return decide_if_measured();
  }
  measure_if_wanted();
  // Until the order is carried out, steps are still those of the old shape.
  if (!compares()) return std::nullopt;
  const auto verdict = check_->stepped(seconds);
  if (!verdict) return std::nullopt;
  const Advice advice = judge(*verdict);
  check_.reset();
  return advice;
}

std::optional<Tuner::Advice> Tuner::decide_if_measured() {
  const auto measured = meter_->result();
  if (!measured) return std::nullopt;
  meter_.reset();
  return decide(*measured);
}

}  // namespace troupe::actors
