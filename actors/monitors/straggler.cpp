#include "actors/monitors/straggler.h"

#include <algorithm>
#include <optional>

namespace troupe::actors {
namespace {

template <typename Values>
std::optional<double> median_of(const Values& values) {
  if (values.empty()) return std::nullopt;
  std::vector<double> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

void push_bounded(std::deque<double>& values, double value, std::size_t most) {
  values.push_back(value);
  if (values.size() > most) values.pop_front();
}

RankPlace place_of(const StepReport::StageTime& time) {
  return {.replica = time.replica, .stage = time.stage, .shard = time.shard};
}

}  // namespace

/// The time that is expected of a stage in a step; 0 while it is not known.
double StragglerScores::expected_s(const std::vector<StepReport::StageTime>& stages,
                                   const StepReport::StageTime& stage) const {
  std::vector<double> twins, slowdowns;
  for (const auto& other : stages) {
    if (&other == &stage) continue;
    if (other.stage == stage.stage) twins.push_back(other.busy_s);
    const auto known = stages_.find(place_of(other));
    if (known == stages_.end()) continue;
    if (const auto usual = median_of(known->second.busy_s); usual && *usual > 0)
      slowdowns.push_back(other.busy_s / *usual);
  }
  if (const auto of_twins = median_of(twins)) return *of_twins;
  const auto own = stages_.find(place_of(stage));
  if (own == stages_.end() || own->second.busy_s.size() < kWindow) return 0;
  return median_of(own->second.busy_s).value_or(0) * median_of(slowdowns).value_or(1);
}

std::vector<StragglerFound> StragglerScores::on_step(const StepReport& report) {
  const auto stages = report.stages();
  std::vector<double> expected;
  for (const auto& stage : stages) expected.push_back(expected_s(stages, stage));
  std::vector<StragglerFound> found;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const auto& stage = stages[i];
    History& history = stages_[place_of(stage)];
    push_bounded(history.busy_s, stage.busy_s, kHistory);
    if (expected[i] <= 0) continue;
    push_bounded(history.ratios, stage.busy_s / expected[i], kWindow);
    if (history.ratios.size() < kWindow) continue;
    const double score = median_of(history.ratios).value_or(0);
    if (score < kScore || report.step < history.told_at + kPause) continue;
    history.told_at = report.step;
    found.push_back({.replica = stage.replica,
                     .stage = stage.stage,
                     .shard = stage.shard,
                     .score = score,
                     .busy_s = stage.busy_s,
                     .usual_busy_s = expected[i]});
  }
  return found;
}

StragglerWatch::StragglerWatch(Hub& hub)
    : hub_(hub),
      thread_(hub, "straggler", mask_of<StepCommitted, MembershipChanged>(),
              [this](const Subscription::Batch& batch) { consume(batch); }) {}

void StragglerWatch::consume(const Subscription::Batch& batch) {
  for (const auto& event : batch.events) {
    const auto* step = std::get_if<StepCommitted>(&event->body);
    if (!step) {
      scores_.forget();
      const std::lock_guard lock(mutex_);
      recent_.clear();
      continue;
    }
    const auto all = scores_.on_step(step->report);
    keep(step->report.step, all);
    for (const StragglerFound& found : all)
      hub_.publish({.configuration = event->configuration, .step = event->step, .body = found});
  }
}

void StragglerWatch::keep(std::int64_t step, const std::vector<StragglerFound>& found) {
  const std::lock_guard lock(mutex_);
  for (const StragglerFound& one : found)
    recent_[{.replica = one.replica, .stage = one.stage, .shard = one.shard}] = {.step = step,
                                                                                 .found = one};
  std::erase_if(
      recent_, [&](const auto& told) { return told.second.step + StragglerScores::kPause < step; });
}

std::vector<StragglerFound> StragglerWatch::recent() const {
  const std::lock_guard lock(mutex_);
  std::vector<StragglerFound> recent;
  for (const auto& [place, told] : recent_) recent.push_back(told.found);
  return recent;
}

}  // namespace troupe::actors
