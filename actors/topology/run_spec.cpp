#include "actors/topology/run_spec.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "actors/topology/schedule_kinds.h"
#include "schedules/generators/generators.h"
#include "schedules/plan/counted.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

/// Takes from the run how divided weights are gathered. Each chunk counts as having as many units.
schedules::Gathering gathering_of(const RunSpec& spec, const schedules::Costs& costs) {
  const stages::DataParallelSpec& data_parallel = spec.data_parallel;
  const bool given = costs.gathering != schedules::Gathering{};
  if (data_parallel.division != stages::StateDivision::optim_grads_params) {
    const auto gathers = [](const auto& chunk) {
      return chunk.gathers != schedules::GatherCosts{};
    };
    if (given || std::ranges::any_of(costs.chunks, gathers))
      throw Error(ErrorKind::manifest,
                  "schedule.costs has gathers of weights (gF, gB, units, ahead), which only "
                  "data_parallel.sharding = 'optim_grads_params' does; leave them out");
    return {};
  }
  if (given)
    throw Error(ErrorKind::manifest,
                "schedule.costs has units or ahead, which follow from the model and from "
                "data_parallel.prefetch; leave them out");
  const auto chunks = static_cast<std::int64_t>(costs.chunks.size());
  return {
      .units = static_cast<int>(std::max<std::int64_t>(1, spec.model.num_hidden_layers / chunks)),
      .ahead = data_parallel.overlaps_gather ? data_parallel.prefetch : 0,
      .reshards = data_parallel.reshards};
}

schedules::ScheduleShape shape_of(const RunSpec& spec) {
  return {.stages = spec.mesh.pp,
          .chunks = spec.schedule.chunks,
          .microbatches = spec.num_microbatches(),
          .costs = costs_of(spec)};
}

schedules::Plan generate(const char* name, const schedules::ScheduleShape& shape) {
  return schedules::find_generator(name)->generate(shape);
}

}  // namespace

schedules::Costs costs_of(const RunSpec& spec) {
  if (spec.schedule.costs.empty()) return unit_costs(spec);
  auto parsed = schedules::parse_costs(spec.schedule.costs, 1);
  if (const auto* wrong = std::get_if<std::string>(&parsed))
    throw Error(ErrorKind::manifest, "schedule.costs: " + *wrong);
  schedules::Costs costs = std::get<schedules::WholeCosts>(std::move(parsed)).costs;
  const auto chunks = static_cast<std::size_t>(spec.mesh.pp * spec.schedule.chunks);
  if (costs.stages.size() == 1) costs.stages.resize(chunks, costs.stages.front());
  if (costs.stages.size() != chunks)
    throw Error(ErrorKind::manifest, "schedule.costs has values for " +
                                         std::to_string(costs.stages.size()) +
                                         " chunks, but there are " + std::to_string(chunks) +
                                         "; give one value, or one for each");
  costs.chunks = std::move(costs.stages);
  costs.stages.assign(1, {});
  costs.pairs = schedules::Pairs::when_ready;
  costs.gathering = gathering_of(spec, costs);
  return costs;
}

schedules::Costs unit_costs(const RunSpec& spec) {
  using stages::Recompute;
  const Recompute& recompute = spec.recompute;
  // What the other modes compute again is little beside a layer's products.
  if (recompute.mode != Recompute::Mode::full) return {};
  if (recompute.method == Recompute::Method::uniform) return {.stages = {{.input_gradient = 2}}};
  // In units of a layer, to be whole numbers.
  const auto chunks = static_cast<std::int64_t>(spec.mesh.pp) * spec.schedule.chunks;
  const std::int64_t layers = (spec.model.num_hidden_layers + chunks - 1) / chunks;
  const auto all = static_cast<double>(layers);
  const auto again = static_cast<double>(std::min<std::int64_t>(recompute.num_layers, layers));
  return {.stages = {{.forward = all, .input_gradient = all + again, .weight_gradient = all}}};
}

schedules::Plan make_plan(const RunSpec& spec) {
  if (spec.schedule.kind == "csv") {
    auto parsed = schedules::parse_csv(spec.schedule.csv);
    if (const auto* error = std::get_if<schedules::PlanError>(&parsed))
      throw Error(ErrorKind::manifest,
                  "schedule.csv, line " + std::to_string(error->line) + ": " + error->message);
    return schedules::in_order(std::get<schedules::Plan>(std::move(parsed)));
  }
  if (spec.schedule.kind == kAutoSchedule) return measuring_plan(shape_of(spec));
  return schedules::in_order(generate(spec.schedule.kind.c_str(), shape_of(spec)));
}

schedules::Plan make_eval_plan(const RunSpec& spec) {
  const schedules::Plan training = make_plan(spec);
  schedules::ScheduleShape shape = shape_of(spec);
  shape.chunks = training.num_chunks() / shape.stages;
  schedules::Plan plan = generate("forward-only", shape);
  if (plan.rank_of_chunk == training.rank_of_chunk) return plan;
  // A user's plan may place chunks in another order; each rank then runs the forwards of the
  // training plan.
  plan = training;
  plan.kind = "forward-only";
  for (auto& row : plan.actions) {
    std::erase_if(row, [](const auto& a) { return a.op != schedules::Op::F; });
    for (auto& action : row) action.overlaps_next = false;  // the action that it overlapped is gone
  }
  return plan;
}

void RunSpec::Mesh::set_widths(std::vector<Width> of_stages) {
  dp = std::ranges::max(of_stages, {}, &Width::dp).dp;
  tp = std::ranges::max(of_stages, {}, &Width::tp).tp;
  widths = std::move(of_stages);
  if (std::ranges::count(widths, widths.front()) == std::ssize(widths)) widths.clear();
}

int RunSpec::Mesh::ranks_of_replica(int replica) const {
  if (is_even()) return pp * tp;
  int ranks = 0;
  for (const Width& width : widths) ranks += replica < width.dp ? width.tp : 0;
  return ranks;
}

int RunSpec::Mesh::num_ranks() const {
  if (is_even()) return dp * pp * tp;
  int ranks = 0;
  for (const Width& width : widths) ranks += width.dp * width.tp;
  return ranks;
}

std::int64_t RunSpec::Eval::batches_of(const Set& set, std::int64_t global) const {
  return std::min(steps, (set.samples + global - 1) / global);
}

std::int64_t RunSpec::Eval::batches(std::int64_t global) const {
  std::int64_t sum = 0;
  for (const Set& set : sets) sum += batches_of(set, global);
  return sum;
}

RunSpec::Eval::Batch RunSpec::Eval::batch(std::int64_t number, std::int64_t global) const {
  std::size_t set = 0;
  for (; number >= batches_of(sets.at(set), global); ++set) number -= batches_of(sets[set], global);
  return {.set = set,
          .number = number,
          .samples = std::min(global, sets[set].samples - number * global)};
}

std::string RunSpec::Eval::compared(std::int64_t global) const {
  if (sets.empty()) return "";
  const std::int64_t samples = std::min(sets.front().samples, steps * global);
  return sets.front().digest + ", " + schedules::counted(samples, "sample");
}

CoreUse core_use(const RunSpec::Cluster& cluster, std::int64_t ranks) {
  const std::int64_t threads = cluster.device.threads;
  return {.pin = cluster.pin.value_or(ranks * threads <= cluster.cores),
          .spin = cluster.spin.value_or(ranks * (threads + 1) <= cluster.cores)};
}

}  // namespace troupe::actors
