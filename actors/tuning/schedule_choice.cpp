#include "actors/tuning/schedule_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "actors/topology/scale.h"
#include "actors/tuning/layer_times.h"
#include "schedules/generators/generators.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

/// The share by which a schedule must be faster than 1f1b; smaller differences are within the error
/// of measurement.
constexpr double kLeastGain = 0.01;

/// Costs in the form of schedule.costs, in whole nanoseconds, because searches are exact with whole
/// numbers.
std::string text_of(const schedules::Costs& costs) {
  const auto whole = [](double seconds) { return std::llround(seconds * 1e9); };
  std::string text;
  const auto add = [&](const char* name, auto cost, schedules::Op op) {
    std::string values;
    bool any = false;
    for (const auto& chunk : costs.chunks) {
      const auto value = whole(cost(chunk, op));
      any = any || value > 0;
      values += fmt::format("{}{}", values.empty() ? "" : ":", value);
    }
    if (any || name[0] != 'c') text += fmt::format("{}={},", name, values);
  };
  using schedules::Op;
  for (const auto& [name, op] : {std::pair{"F", Op::F}, {"I", Op::I}, {"W", Op::W}, {"B", Op::B}})
    add(name, schedules::computation, op);
  for (const auto& [name, op] :
       {std::pair{"cF", Op::F}, {"cI", Op::I}, {"cW", Op::W}, {"cB", Op::B}})
    add(name, schedules::collective, op);
  return text + fmt::format("hop={}", whole(costs.hop));
}

/// Costs that are the same for every chunk, the averages of the given ones.
schedules::Costs averaged(const schedules::Costs& costs) {
  using schedules::Op;
  ActionTimes mean;
  for (const auto& chunk : costs.chunks)
    for (const Op op : {Op::F, Op::I, Op::W, Op::B}) {
      mean.of(op) += schedules::computation(chunk, op);
      mean.collective_of(op) += schedules::collective(chunk, op);
    }
  for (double& seconds : mean.seconds) seconds /= static_cast<double>(costs.chunks.size());
  schedules::Costs out;
  out.hop = costs.hop;
  out.chunks = {costs_of(mean)};
  return out;
}

/// Simulates the current mesh with other schedules.
class Paper {
 public:
  Paper(const RunSpec& spec, const ClusterShape& current, const Measured& measured)
      : spec_(spec),
        current_(current),
        times_(layer_times(current.layout, measured)),
        hop_s_(measured.hop_s) {}

  double simulated(const ClusterShape& shape) const { return step(shape).simulated(shape.layout); }

  std::optional<Candidate> candidate(const schedules::Generator& generator) const {
    if (generator.purpose != schedules::Purpose::training || generator.copies != 1)
      return std::nullopt;
    ScaleRequest request;
    request.schedule = std::string(generator.name);
    try {
      const ClusterShape shape = scaled(spec_, current_, request);
      const schedules::Costs costs = step(shape).costs(shape.layout);
      request.costs = text_of(costs);
      Candidate best = of(request);
      if (!generator.searched) return best;
      // The search is a heuristic for equal stages and may do worse with the times of each stage.
      request.costs = text_of(averaged(costs));
      Candidate made = of(request);
      return made.step_s < best.step_s ? made : best;
    } catch (const Error&) {
      return std::nullopt;
    }
  }

 private:
  StepSimulation step(const ClusterShape& shape) const { return {spec_, shape, times_, hop_s_}; }
  Candidate of(const ScaleRequest& request) const {
    const ClusterShape shape = scaled(spec_, current_, request);
    return {.shape = shape, .step_s = simulated(shape)};
  }

  const RunSpec& spec_;
  const ClusterShape& current_;
  const LayerTimes times_;
  const double hop_s_;
};

bool is_1f1b(const Candidate& candidate) {
  return candidate.shape.schedule.kind == "1f1b";
}

}  // namespace

std::vector<Candidate> candidates(const RunSpec& spec, const ClusterShape& current,
                                  const Measured& measured) {
  const Paper paper(spec, current, measured);
  const double beyond = std::max(0.0, measured.step_s - paper.simulated(current));
  std::vector<Candidate> found;
  for (const auto& generator : schedules::generators()) {
    const auto candidate = paper.candidate(generator);
    if (!candidate) continue;
    found.push_back(*candidate);
    found.back().step_s += beyond;
  }
  std::ranges::stable_partition(found, is_1f1b);
  std::ranges::stable_sort(found, {}, &Candidate::step_s);
  return found;
}

const Candidate& plain_of(const std::vector<Candidate>& candidates) {
  const auto plain = std::ranges::find_if(candidates, is_1f1b);
  TROUPE_ASSERT(plain != candidates.end());
  return *plain;
}

const Candidate& choose(const std::vector<Candidate>& candidates,
                        const std::function<bool(const ClusterShape&)>& fits) {
  const Candidate& plain = plain_of(candidates);
  for (const Candidate& candidate : candidates) {
    if (candidate.step_s > (1 - kLeastGain) * plain.step_s) break;
    if (fits(candidate.shape)) return candidate;
  }
  return plain;
}

}  // namespace troupe::actors
