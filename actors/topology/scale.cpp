#include "actors/topology/scale.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "actors/topology/layers/layer_split.h"
#include "actors/topology/schedule_kinds.h"
#include "actors/topology/shape_rules.h"
#include "actors/topology/state/state_parts.h"
#include "schedules/plan/counted.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

std::string text(std::int64_t n) {
  return std::to_string(n);
}

int layers_of(const RunSpec& spec) {
  return static_cast<int>(spec.model.num_hidden_layers);
}

/// The stages and chunks for people: "pp 2 with 2 chunks a stage".
std::string stages_text(const ClusterShape& shape) {
  const int chunks = shape.schedule.chunks;
  return "pp " + text(shape.mesh.pp) + " with " + schedules::counted(chunks, "chunk") + " a stage";
}

/// Why no rule can give each chunk a layer; empty if one can.
std::string check_layers(const RunSpec& spec, const ClusterShape& shape) {
  const int pp = shape.mesh.pp, chunks = shape.schedule.chunks, layers = layers_of(spec);
  const int copies = copies_of(shape.schedule);
  const std::int64_t most = most_chunks(spec, shape.schedule) / chunks;
  if (pp <= most) return "";
  return stages_text(shape) + ": " + schedules::counted(std::int64_t{pp} * chunks, "chunk") +
         " need a layer each, but the model has " + text(layers) +
         (copies > 1 ? " in " + text(copies) + " copies" : "") +
         (most > 0 ? "; at most --pp " + text(most) : "");
}

void check_positive(const ScaleRequest& request) {
  if (request.pp && *request.pp < 1)
    refuse("--pp " + text(*request.pp) + ": at least 1 stage is needed");
  if (request.dp && *request.dp < 1)
    refuse("--dp " + text(*request.dp) + ": at least 1 replica is needed");
  if (request.tp && *request.tp < 1)
    refuse("--tp " + text(*request.tp) + ": at least 1 shard is needed");
  if (request.ep && *request.ep < 1)
    refuse("--ep " + text(*request.ep) + ": at least 1 replica has all experts");
}

void check_mesh(const RunSpec& spec, const ClusterShape& shape) {
  const RunSpec::Mesh& mesh = shape.mesh;
  for (int stage = 0; stage < (mesh.is_even() ? 1 : mesh.pp); ++stage) {
    const int tp = mesh.width(stage).tp;
    if (const std::string wrong = fault_of_shards(spec, mesh.sequence_parallel && tp > 1, tp);
        !wrong.empty())
      refuse("--tp " + text(tp) + ": " + wrong);
  }
  if (const std::string wrong = fault_of_widths(mesh, shape.schedule); !wrong.empty())
    refuse(wrong);
  if (const std::string wrong = fault_of_experts(spec, mesh); !wrong.empty())
    refuse("--ep " + text(mesh.ep) + ": " + wrong);
  const int dp = mesh.dp;
  if (!shares_evenly(spec.batch, dp)) {
    const int samples = spec.batch.microbatches(1);
    int nearest = dp;
    while (!shares_evenly(spec.batch, nearest)) --nearest;
    refuse("--dp " + text(dp) + ": batch.global / batch.micro = " +
           schedules::counted(std::int64_t{samples}, "microbatch") +
           " cannot be shared evenly by " + schedules::counted(dp, "replica") + "; nearest: --dp " +
           text(nearest));
  }
}

/// Refuses a number of replicas that the run's instances cannot have. After a loss they may have
/// to.
void check_instances(const RunSpec& spec, int dp) {
  const int instances = spec.data_parallel.instances;
  if (num_instances(spec, dp) == instances) return;
  int nearest = std::max(2 * instances, dp / instances * instances);
  while (nearest > 2 * instances && !shares_evenly(spec.batch, nearest)) nearest -= instances;
  refuse("--dp " + text(dp) + ": the run's " + schedules::counted(instances, "instance") +
         " (data_parallel.num_optimizer_instances) cannot have as many replicas each, at least "
         "two; nearest: --dp " +
         text(nearest));
}

/// Why the plan that the user wrote, if there is one, is not for this shape; empty if it is.
std::string check_own_plan(const RunSpec& spec, const ClusterShape& shape) {
  if (spec.schedule.kind != "csv")
    return "this launch has no plan of its own, as schedule.csv names one; give another --schedule";
  const int microbatches = spec.batch.microbatches(spec.mesh.dp);
  if (shape.mesh.pp == spec.mesh.pp && spec.batch.microbatches(shape.mesh.dp) == microbatches)
    return "";
  return "the run's own schedule, csv, is a plan for one shape, " +
         schedules::counted(spec.mesh.pp, "stage") + " and " +
         schedules::counted(microbatches, "microbatch") + "; give --schedule KIND too";
}

/// Why the schedule has no plan of this shape; empty if it has one.
std::string check_schedule(const RunSpec& spec, const ClusterShape& shape) {
  if (shape.schedule.kind == "csv") return check_own_plan(spec, shape);
  if (generator_of(shape.schedule.kind)) {
    const bool has_mirrors = copies_of(shape.schedule) > 1;
    if (std::string fault = has_mirrors ? fault_of_mirrors(shape.mesh) : ""; !fault.empty())
      return fault;
    return fault_of_schedule(spec.batch, shape.mesh, shape.schedule);
  }
  auto kinds = schedule_kinds();
  if (spec.schedule.kind != "csv") std::erase(kinds, "csv");
  return fmt::format("'{}' is no schedule that a run can change to; it is one of {}",
                     shape.schedule.kind, fmt::join(kinds, ", "));
}

/// The layout of a changed shape: its own if the new plan keeps every chunk in its place, else one
/// by the run's rule. Throws if the rule has no layer for some chunk.
Layout layout_for(const RunSpec& spec, const ClusterShape& shape) {
  const schedules::Plan plan = make_plan(with_shape(spec, shape));
  const auto& chunks = shape.layout.chunks;
  if (std::ranges::equal(chunks, plan.rank_of_chunk, {}, &Layout::Chunk::stage) &&
      shape.layout.copies() == plan.num_copies)
    return shape.layout;
  if (const auto wrong = check_layers(spec, shape); !wrong.empty()) refuse(wrong);
  const auto rule = rule_of(parse_split(spec.layout));
  return layout_of(split_layers(rule, spec.model, plan.chunks_per_copy()), plan.rank_of_chunk);
}

/// Puts `given`, such as the option as the user gave it, before the message of an error.
template <typename F>
auto named(const std::string& given, const F& body) {
  try {
    return body();
  } catch (const Error& error) {
    refuse(given + error.what());
  }
}

bool fits(const RunSpec& spec, const ClusterShape& shape) {
  try {
    check_mesh(spec, shape);
  } catch (const Error&) {
    return false;
  }
  return check_schedule(spec, shape).empty();
}

/// The chunks per stage under the ordered schedule. The first number counts that the schedule's
/// check and the split allow: the manifest's if it names this schedule, the current one if above 1,
/// the schedule's own, the manifest's, or the split's. `split_chunks` is the split's number of
/// chunks of one copy; 0: any.
int chunks_under(const RunSpec& spec, const ClusterShape& current, ClusterShape shape,
                 int split_chunks) {
  const auto* generator = generator_of(shape.schedule.kind);
  const int own = generator ? generator->chunks : 1, copies = copies_of(shape.schedule);
  std::vector<int> wanted{own, spec.schedule.chunks, split_chunks * copies / shape.mesh.pp};
  if (current.schedule.chunks > 1) wanted.insert(wanted.begin(), current.schedule.chunks);
  if (spec.schedule.kind == shape.schedule.kind)
    wanted.insert(wanted.begin(), spec.schedule.chunks);
  std::optional<int> possible;
  for (const int chunks : wanted) {
    shape.schedule.chunks = chunks;
    if (!check_schedule(spec, shape).empty()) continue;
    if (split_chunks == 0 || split_chunks * copies == chunks * shape.mesh.pp) return chunks;
    if (!possible) possible = chunks;
  }
  return possible.value_or(own);
}

/// The current mesh with what the request says of stages, replicas and shards.
RunSpec::Mesh mesh_of(const RunSpec& spec, const RunSpec::Mesh& current,
                      const ScaleRequest& request) {
  RunSpec::Mesh mesh = current;
  check_positive(request);
  if (request.stage) {
    const int stage = *request.stage;
    if (request.pp || !(request.dp || request.tp))
      refuse("--stage " + text(stage) + " goes with --dp or --tp of this stage, and without --pp");
    if (stage < 0 || stage >= mesh.pp)
      refuse("--stage " + text(stage) + ": the stages are 0 to " + text(mesh.pp - 1));
  }
  if (request.pp && *request.pp != mesh.pp) {
    const auto with_hosts = std::ssize(spec.cluster.stage_hosts);
    if (with_hosts > 0 && *request.pp != with_hosts)
      refuse("--pp " + text(*request.pp) + ": the " + schedules::counted(with_hosts, "stage") +
             " of the manifest have hosts of their own ([[stage]] hosts), which say nothing of " +
             text(*request.pp) + "; change --dp or --tp, or start a run with other tables");
    const auto with_devices = std::ssize(spec.cluster.stage_kinds);
    if (with_devices > 0 && *request.pp != with_devices)
      refuse("--pp " + text(*request.pp) + ": the " + schedules::counted(with_devices, "stage") +
             " of the manifest have several kinds of devices ([[stage]] device), which say nothing "
             "of " +
             text(*request.pp) + "; change --dp or --tp, or start a run with other tables");
    if (!mesh.is_even() && !(request.dp && request.tp))
      refuse("--pp " + text(*request.pp) + ": the stages differ in width (" + to_string(mesh) +
             "), so say with --dp and --tp how wide all shall be");
    mesh.widths.clear();
    mesh.pp = *request.pp;
  }
  std::vector<RunSpec::Width> widths;
  for (int stage = 0; stage < mesh.pp; ++stage) {
    RunSpec::Width width = mesh.width(stage);
    if (!request.stage || stage == *request.stage)
      width = {.dp = request.dp.value_or(width.dp), .tp = request.tp.value_or(width.tp)};
    widths.push_back(width);
  }
  mesh.set_widths(std::move(widths));
  mesh.sequence_parallel = spec.mesh.sequence_parallel && mesh.tp > 1;
  mesh.ep = request.ep.value_or(mesh.ep);
  if (mesh.etp > 1) mesh.etp = 0;  // as many as there are shards now
  return mesh;
}

/// The current shape with the mesh and the schedule of the request, but still with the old layout.
ClusterShape meshed(const RunSpec& spec, const ClusterShape& current, const ScaleRequest& request,
                    int split_chunks) {
  ClusterShape shape = current;
  shape.mesh = mesh_of(spec, current.mesh, request);
  // A user's own plan is for one mesh, however the layers are split.
  if (shape.schedule.kind == "csv" && !request.schedule && shape.mesh == current.mesh) return shape;
  check_mesh(spec, shape);
  if (request.dp) check_instances(spec, shape.mesh.dp);
  if (shape.mesh.pp != current.mesh.pp) shape.schedule.costs.clear();
  if (request.schedule) {
    const bool own = *request.schedule == "csv";
    shape.schedule = {.kind = *request.schedule,
                      .chunks = 1,
                      .csv = own ? spec.schedule.csv : "",
                      .costs = request.costs};
    shape.schedule.chunks = chunks_under(spec, current, shape, split_chunks);
  }
  const bool by_rule = split_chunks == 0 && (request.layout || shape.mesh.pp != current.mesh.pp);
  if (const auto wrong = check_layers(spec, shape); by_rule && !wrong.empty())
    refuse(to_string(request) + ": " + wrong);
  if (const std::string wrong = check_schedule(spec, shape); !wrong.empty())
    refuse(to_string(request) + ": " + wrong);
  return shape;
}

/// A hint for a split into another number of chunks than the shape has: what the shape has, and how
/// many stages would fit.
std::string chunks_hint(const RunSpec& spec, const ClusterShape& current,
                        const ScaleRequest& request, int split_chunks, const ClusterShape& shape) {
  const std::string has = "; the run has " + stages_text(shape) + " (" + shape.schedule.kind + ")";
  if (request.pp) return "; --pp " + text(*request.pp) + " means " + stages_text(shape);
  ScaleRequest wider = request;
  wider.pp = split_chunks * copies_of(shape.schedule) / shape.schedule.chunks;
  try {
    scaled(spec, current, wider);
  } catch (const Error&) {
    return has;
  }
  return has + ", for this layout give --pp " + text(*wider.pp) + " too";
}

/// The layout as --layout splits the layers.
Layout layout_by(const RunSpec& spec, const ClusterShape& current, const ScaleRequest& request,
                 const LayerSplit& split, const ClusterShape& shape) {
  const schedules::Plan plan = make_plan(with_shape(spec, shape));
  const int given = static_cast<int>(split.layers.size()), needed = plan.chunks_per_copy();
  try {
    return layout_of(split_layers(split, spec.model, needed), plan.rank_of_chunk);
  } catch (const Error& error) {
    const bool other_chunks = given != needed && shape.schedule.kind != "csv";
    refuse(error.what() + (other_chunks ? chunks_hint(spec, current, request, given, shape) : ""));
  }
}

/// Gives the shape as many stages as it can have, at most `most`; none if it can have none. The
/// schedule may need more stages, or pairs of them; 1f1b, the second choice, runs on any number.
void fill_with_stages(const RunSpec& spec, int most, const RunSpec::Schedule& wanted,
                      ClusterShape& shape) {
  int& pp = shape.mesh.pp;
  for (const auto& schedule : {wanted, RunSpec::Schedule{}}) {
    shape.schedule = schedule;
    shape.schedule.costs.clear();  // measured or given for other stages
    pp = most;
    while (pp > 0 && !(fits(spec, shape) && check_layers(spec, shape).empty())) --pp;
    if (pp > 0) break;
  }
  if (pp > 0) shape.layout = layout_for(spec, shape);
}

/// Whole replicas that are left of a stage.
int replicas_left(const RunSpec::Mesh& mesh, int stage, const std::set<int>& lost) {
  const auto [dp, tp] = mesh.width(stage);
  int left = 0;
  for (int replica = 0; replica < dp; ++replica) {
    const int first = rank_at(mesh, {.replica = replica, .stage = stage});
    const auto next = lost.lower_bound(first);
    left += next == lost.end() || *next >= first + tp ? 1 : 0;
  }
  return left;
}

/// shrunk() for stages that differ in width: narrower ones if each has a replica left, else as many
/// stages of one rank as ranks are left.
std::optional<TargetShape> shrunk_uneven(const RunSpec& spec, const ClusterShape& current,
                                         const std::set<int>& lost) {
  TargetShape smaller{.shape = current, .replicas = {}, .hosts = {}};
  RunSpec::Mesh& mesh = smaller.shape.mesh;
  std::vector<RunSpec::Width> widths = current.mesh.widths;
  for (int stage = 0; stage < mesh.pp; ++stage)
    widths[static_cast<std::size_t>(stage)].dp = replicas_left(current.mesh, stage, lost);
  const auto fits_as = [&](const std::vector<RunSpec::Width>& tried) {
    if (std::ranges::min(tried, {}, &RunSpec::Width::dp).dp < 1) return false;
    mesh.set_widths(tried);
    return fits(spec, smaller.shape);
  };
  // The widest stage becomes narrower until the widths go together.
  while (!fits_as(widths)) {
    const auto widest = std::ranges::max_element(widths, {}, &RunSpec::Width::dp);
    if (--widest->dp < 1) break;
  }
  if (std::ranges::min(widths, {}, &RunSpec::Width::dp).dp > 0) return smaller;
  mesh = {.pp = 1, .dp = 1, .tp = 1};
  fill_with_stages(spec, current.num_ranks() - static_cast<int>(lost.size()), current.schedule,
                   smaller.shape);
  if (mesh.pp < 1) return std::nullopt;
  return smaller;
}

}  // namespace

ClusterShape scaled(const RunSpec& spec, const ClusterShape& current, const ScaleRequest& request) {
  const std::string layout = "--layout " + request.layout.value_or("") + " ";
  std::optional<LayerSplit> split;
  if (request.layout) split = named(layout, [&] { return parse_split(*request.layout); });
  ClusterShape shape =
      meshed(spec, current, request, split ? static_cast<int>(split->layers.size()) : 0);
  if (split)
    shape.layout = named(layout, [&] { return layout_by(spec, current, request, *split, shape); });
  else if (shape.mesh.pp != current.mesh.pp || request.schedule)
    shape.layout = named(to_string(request) + ": ", [&] { return layout_for(spec, shape); });
  if (to_string(request).empty())
    refuse("nothing to change: pp, dp, tp, layout and schedule are all left out");
  if (shape == current)
    refuse(to_string(request) + " is what the run has already: " + to_string(current));
  return shape;
}

std::optional<TargetShape> shrunk(const RunSpec& spec, const ClusterShape& current,
                                  const std::set<int>& lost) {
  if (!current.mesh.is_even()) return shrunk_uneven(spec, current, lost);
  const int dp = current.mesh.dp, tp = current.mesh.tp;
  // Surviving ranks, by replica.
  std::vector<int> survivors(static_cast<std::size_t>(dp), current.mesh.ranks_of_replica());
  for (const int rank : lost)
    --survivors[static_cast<std::size_t>(place_of(current.mesh, rank).replica)];
  TargetShape smaller{.shape = current, .replicas = {}};
  auto& mesh = smaller.shape.mesh;
  for (int replica = 0; replica < dp; ++replica)
    if (survivors[static_cast<std::size_t>(replica)] == current.mesh.ranks_of_replica())
      smaller.replicas.push_back(replica);
  if (!smaller.replicas.empty()) {
    mesh.dp = static_cast<int>(smaller.replicas.size());
    const auto fits_now = [&] {  // as many of them share the experts out as can
      mesh.ep = std::gcd(current.mesh.ep, mesh.dp);
      return fits(spec, smaller.shape);
    };
    while (mesh.dp > 0 && !fits_now()) --mesh.dp;
  } else {
    const auto fullest = std::ranges::max_element(survivors);
    smaller.replicas = {static_cast<int>(fullest - survivors.begin())};
    mesh.dp = mesh.ep = 1;
    fill_with_stages(spec, *fullest / tp, current.schedule, smaller.shape);
  }
  if (mesh.pp < 1 || mesh.dp < 1) return std::nullopt;
  smaller.replicas.resize(static_cast<std::size_t>(mesh.dp));
  return smaller;
}

}  // namespace troupe::actors
