#include "actors/schedule_choice.h"

#include <algorithm>
#include <utility>

#include "actors/layer_times.h"
#include "actors/scale.h"
#include "schedules/generators.h"
#include "tensor/error.h"

namespace troupe::actors {
namespace {

/// A schedule must be faster than 1f1b by this share: less is within what measurements tell.
constexpr double kLeastGain = 0.01;

/// The current mesh with another schedule; none where that has no plan for it.
std::optional<Shape> with_schedule(const RunSpec& spec, const Shape& current,
                                   const schedules::Generator& generator) {
  if (generator.purpose != schedules::Purpose::training || generator.copies != 1)
    return std::nullopt;
  ScaleRequest request;
  request.schedule = std::string(generator.name);
  try {
    return scaled(spec, current, request);
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool is_1f1b(const Candidate& candidate) {
  return candidate.shape.schedule.kind == "1f1b";
}

}  // namespace

std::vector<Candidate> candidates(const RunSpec& spec, const Shape& current,
                                  const Measured& measured) {
  const LayerTimes times = layer_times(current.layout, measured);
  const auto simulated = [&](const Shape& shape) {
    return PaperStep(spec, shape, times, measured.hop_s).simulated(shape.layout);
  };
  const double beyond = std::max(0.0, measured.step_s - simulated(current));
  std::vector<Candidate> found;
  for (const auto& generator : schedules::generators()) {
    const auto shape = with_schedule(spec, current, generator);
    if (!shape) continue;
    found.push_back({.shape = *shape, .step_s = beyond + simulated(*shape)});
  }
  std::ranges::stable_partition(found, is_1f1b);
  std::ranges::stable_sort(found, {}, &Candidate::step_s);
  return found;
}

const Candidate& choose(const std::vector<Candidate>& candidates,
                        const std::function<bool(const Shape&)>& fits) {
  const auto plain = std::ranges::find_if(candidates, is_1f1b);
  TROUPE_ASSERT(plain != candidates.end());
  for (const Candidate& candidate : candidates) {
    if (candidate.step_s > (1 - kLeastGain) * plain->step_s) break;
    if (fits(candidate.shape)) return candidate;
  }
  return *plain;
}

}  // namespace troupe::actors
