#include "schedules/planner/step_prediction.h"

#include <algorithm>
#include <numeric>

#include "schedules/analysis/simulate.h"
#include "schedules/planner/replica_costs.h"

namespace troupe::schedules {
namespace {

/// What each chunk of the plan holds, in all copies.
std::vector<ChunkWork> chunks_of_copies(const Plan& plan, const std::vector<int>& layers) {
  const std::vector<ChunkWork> copy = chunks_of(layers);
  std::vector<ChunkWork> all;
  for (int i = 0; i < plan.num_copies; ++i) all.insert(all.end(), copy.begin(), copy.end());
  return all;
}

StageCosts stage_costs(const ChunkCosts& chunk, double hop) {
  return {.forward = chunk.pass.forward + hop,
          .input_gradient = chunk.pass.input_gradient + hop,
          .weight_gradient = chunk.pass.weight_gradient,
          .collectives = {.forward = chunk.pass.forward_wait + chunk.forward_replicas,
                          .input_gradient = chunk.pass.backward_wait + chunk.backward_replicas}};
}

Simulation simulated(const Plan& plan, const std::vector<ChunkCosts>& chunks, Sends sends,
                     Barrier barrier, double hop) {
  const bool blocks = sends == Sends::blocking;
  Costs costs{
      .chunks = {}, .hop = blocks ? 0 : hop, .barrier = barrier, .pairs = Pairs::when_ready};
  for (const ChunkCosts& chunk : chunks)
    costs.chunks.push_back(stage_costs(chunk, blocks ? hop : 0));
  // A valid plan has an end.
  return simulate(plan, costs).value();
}

/// What the stages of a plan have each.
struct Stages {
  std::vector<Work> works;
  std::vector<LayoutCosts> costs;
  std::vector<double> weights;  ///< in means over ranks: relative numbers of ranks

  Stages(const Work& work, const Operations& operations) {
    for (int stage = 0; stage < work.pp; ++stage) {
      const bool is_alike = stage > 0 && work.widths.empty();
      works.push_back(work.of_stage(stage));
      costs.push_back(is_alike ? costs.front() : layout_costs(works.back(), operations));
      weights.push_back(work.widths.empty() ? 1 : works.back().tp * works.back().dp);
    }
  }

  double mean(const std::vector<double>& of_stage) const {
    const double sum = std::inner_product(of_stage.begin(), of_stage.end(), weights.begin(), 0.0);
    return sum / std::accumulate(weights.begin(), weights.end(), 0.0);
  }
};

/// The mean over ranks of what passes wait for other replicas.
double replica_waits(const Plan& plan, const std::vector<ChunkCosts>& chunks,
                     const Stages& stages) {
  std::vector<double> of_stage(stages.works.size(), 0);
  for (std::size_t i = 0; i < chunks.size(); ++i)
    of_stage[static_cast<std::size_t>(plan.rank_of_chunk[i])] +=
        plan.microbatches_per_copy() * (chunks[i].forward_replicas + chunks[i].backward_replicas);
  return stages.mean(of_stage);
}

/// The most that any stage takes, of a time that depends on its work and on its parameters.
template <typename Time>
double longest(const Stages& stages, const std::vector<ChunkWork>& chunks, const Plan& plan,
               const Time& time) {
  std::vector<double> parameters(stages.works.size(), 0);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const auto stage = static_cast<std::size_t>(plan.rank_of_chunk[i]);
    parameters[stage] += parameters_of(stages.works[stage], chunks[i]);
  }
  double most = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    most = std::max(most, time(stages.works[i], parameters[i]));
  return most;
}

double hop_of(const Work& work, const Operations& operations) {
  return work.pp > 1 ? hop_between_stages(work, work, operations) : 0;
}

/// The longest hop between two stages, in either direction.
double longest_hop(const Stages& stages, const Operations& operations) {
  double longest = 0;
  for (std::size_t i = 1; i < stages.works.size(); ++i) {
    const Work &before = stages.works[i - 1], &next = stages.works[i];
    longest = std::max({longest, hop_between_stages(before, next, operations),
                        hop_between_stages(next, before, operations)});
  }
  return longest;
}

}  // namespace

StepPrediction predict_step(const Work& work, const Plan& plan, const std::vector<int>& layers,
                            const MachineModel& machine) {
  const Operations operations(machine, work.element_bytes, work.devices());
  const Stages stages(work, operations);
  const std::vector<ChunkWork> held = chunks_of_copies(plan, layers);
  std::vector<ChunkCosts> chunks;
  for (std::size_t i = 0; i < held.size(); ++i) {
    const auto stage = static_cast<std::size_t>(plan.rank_of_chunk[i]);
    chunks.push_back(chunk_costs(stages.works[stage], operations, stages.costs[stage], held[i]));
  }
  const double hop = longest_hop(stages, operations);
  const Sends sends = machine.software.sends;
  const Barrier barrier = work.updates_ahead ? Barrier::ahead : Barrier::global;
  const Simulation alone = simulated(plan, chunks, sends, barrier, 0);
  const Simulation with_hops = hop > 0 ? simulated(plan, chunks, sends, barrier, hop) : alone;
  const auto of_fullest = [&](auto time) {
    return longest(stages, held, plan, [&](const Work& own, double parameters) {
      return time(own, operations, parameters);
    });
  };
  const double waits = replica_waits(plan, chunks, stages);
  const double collectives = stages.mean(alone.collective), busy = stages.mean(alone.busy);

  StepPrediction out{.devices = work.devices()};
  out.compute_s = busy - collectives;
  out.shards_s = std::max(0.0, collectives - waits);
  out.replicas_s = collectives - out.shards_s +
                   exposed_reductions(stages.works, operations, plan, held, with_hops) +
                   of_fullest(weights_gather);
  out.edges_s = with_hops.step - alone.step;
  out.optimizer_s = of_fullest(optimizer_time);
  // The costs have no optimizer.
  const double bubble = std::max(0.0, alone.step - busy);
  out.step_s =
      out.compute_s + out.shards_s + out.replicas_s + out.edges_s + out.optimizer_s + bubble;
  out.bubble_share = bubble / out.step_s;
  out.tokens_per_s = static_cast<double>(work.tokens_of_step()) / out.step_s;
  const double peak = operations.flop_per_s() * out.devices;
  out.mfu = model_flop_per_token(work) * out.tokens_per_s / peak;
  out.hfu = executed_flop_per_token(work) * out.tokens_per_s / peak;
  return out;
}

double estimate_step(const Work& work, const Operations& operations, const LayoutCosts& costs,
                     const std::vector<int>& layers, const PipelineForm& form) {
  const double p = work.pp, m = work.microbatches, v = form.chunks;
  const std::vector<ChunkWork> chunks = chunks_of(layers);
  const double hop = hop_of(work, operations);
  const bool blocks = operations.machine().software.sends == Sends::blocking;
  std::vector<double> of_rank(static_cast<std::size_t>(work.pp), blocks ? 2 * v * hop : 0);
  std::vector<double> parameters(of_rank.size(), 0);
  double last_backwards = 0;  // of the first stage
  double filled = 0;  // what a schedule that splits backwards computes in the pipeline's idle time
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const ChunkCosts chunk = chunk_costs(work, operations, costs, chunks[i]);
    of_rank[i % of_rank.size()] += chunk.forward() + chunk.backward();
    parameters[i % of_rank.size()] += parameters_of(work, chunks[i]);
    if (i % of_rank.size() == 0) last_backwards += chunk.backward() * (i == 0 ? 1 : p);
    if (form.splits_backward) filled = std::max(filled, 2 * chunk.pass.weight_gradient);
  }
  const double slowest = *std::ranges::max_element(of_rank);
  const double others = std::accumulate(of_rank.begin(), of_rank.end(), -slowest);
  double hops = 0;
  if (!blocks && work.pp > 1)
    hops = v > 1 ? (2 * p * v - 2) * hop : (2 * (p - 1) * m / p + 2 * (p - 2)) * hop;
  const double most = *std::ranges::max_element(parameters);
  const double fill = std::max(0.0, others - (p - 1) * filled) / v;
  return m * slowest + fill + std::max(0.0, hops) + optimizer_time(work, operations, most) +
         weights_gather(work, operations, most) +
         estimated_reductions(work, operations, parameters.front(), last_backwards, most);
}

}  // namespace troupe::schedules
