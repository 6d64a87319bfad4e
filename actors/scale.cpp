#include "actors/scale.h"

#include <algorithm>
#include <numeric>

#include "actors/schedule_kinds.h"
#include "tensor/error.h"

namespace troupe::actors {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ErrorKind::usage, text);
}

std::string text(std::int64_t n) {
  return std::to_string(n);
}

std::string list(const std::vector<int>& numbers) {
  std::string out;
  for (const int n : numbers) out += (out.empty() ? "" : ",") + text(n);
  return out;
}

int layers_of(const RunSpec& spec) {
  return static_cast<int>(spec.model.num_hidden_layers);
}

std::int64_t num_microbatches(const RunSpec& spec, int dp) {
  return spec.batch.global / dp / spec.batch.micro;
}

/// Of the parameters; 1 for what is no generated schedule.
int copies_of(const RunSpec::Schedule& schedule) {
  const auto* generator = generator_of(schedule.kind);
  return generator ? generator->copies : 1;
}

void check_mesh(const RunSpec& spec, const Shape& shape) {
  const auto [pp, dp] = shape.mesh;
  const int chunks = shape.schedule.chunks, layers = layers_of(spec);
  const int copies = copies_of(shape.schedule);
  const int most = layers * copies / chunks;
  if (pp < 1) refuse("--pp " + text(pp) + ": at least 1 stage is needed");
  if (dp < 1) refuse("--dp " + text(dp) + ": at least 1 replica is needed");
  if (pp > most)
    refuse("--pp " + text(pp) + ": " + text(std::int64_t{pp} * chunks) +
           " chunks need a layer each, but the model has " + text(layers) +
           (copies > 1 ? " in " + text(copies) + " copies" : "") + "; at most --pp " + text(most));
  const std::int64_t samples = spec.batch.global / spec.batch.micro;
  if (samples % dp != 0) {
    int nearest = dp;
    while (samples % nearest != 0) --nearest;
    refuse("--dp " + text(dp) + ": batch.global / batch.micro = " + text(samples) +
           " microbatches are not divisible by " + text(dp) + " replicas; nearest: --dp " +
           text(nearest));
  }
}

/// Empty, or why the schedule has no plan of this shape.
std::string check_schedule(const RunSpec& spec, const Shape& shape) {
  if (shape.schedule.kind == "csv")
    return "schedule.kind = 'csv' is a plan for one shape; order --schedule KIND with the change";
  const auto* generator = generator_of(shape.schedule.kind);
  if (!generator) {
    std::string kinds;
    for (const auto& g : schedules::generators())
      if (generator_of(std::string(g.name))) kinds += std::string(g.name) + ", ";
    return "--schedule " + shape.schedule.kind +
           " is no schedule that a run can take on; it is one of " + kinds + kAutoSchedule;
  }
  return generator->check(
      {.stages = shape.mesh.pp,
       .chunks = shape.schedule.chunks,
       .microbatches = static_cast<int>(num_microbatches(spec, shape.mesh.dp))});
}

/// The shape's own layout where the new plan keeps every chunk in its place, else an even one.
Layout layout_for(const RunSpec& spec, const Shape& shape) {
  RunSpec changed = spec;
  changed.mesh = shape.mesh;
  changed.schedule = shape.schedule;
  const schedules::Plan plan = make_plan(changed);
  const auto& chunks = shape.layout.chunks;
  if (std::ranges::equal(chunks, plan.rank_of_chunk, {}, &Layout::Chunk::stage) &&
      shape.layout.copies() == plan.num_copies)
    return shape.layout;
  return even_layout(layers_of(spec), plan.rank_of_chunk, plan.num_copies);
}

Layout layout_by(const RunSpec& spec, const Shape& shape, const std::vector<int>& layers) {
  const int total = std::accumulate(layers.begin(), layers.end(), 0);
  if (std::ranges::any_of(layers, [](int n) { return n < 1; }))
    refuse("--layout " + list(layers) + ": every stage needs at least one layer");
  if (total != layers_of(spec))
    refuse("--layout " + list(layers) + " holds " + text(total) + " layers, but the model has " +
           text(layers_of(spec)));
  if (shape.schedule.chunks != 1)
    refuse("--layout gives one number a stage, but schedule.chunks = " +
           text(shape.schedule.chunks));
  std::vector<int> stages(layers.size());
  std::iota(stages.begin(), stages.end(), 0);
  return layout_of(layers, stages);
}

bool fits(const RunSpec& spec, const Shape& shape) {
  try {
    check_mesh(spec, shape);
  } catch (const Error&) {
    return false;
  }
  return check_schedule(spec, shape).empty();
}

}  // namespace

std::string to_string(const ScaleRequest& request) {
  std::string out;
  const auto add = [&out](const std::string& option, const std::string& value) {
    out += (out.empty() ? "--" : " --") + option + " " + value;
  };
  if (request.pp) add("pp", text(*request.pp));
  if (request.dp) add("dp", text(*request.dp));
  if (!request.layers.empty()) add("layout", list(request.layers));
  if (request.schedule) add("schedule", *request.schedule);
  return out;
}

Shape scaled(const RunSpec& spec, const Shape& current, const ScaleRequest& request) {
  Shape shape = current;
  const int stages = static_cast<int>(request.layers.size());
  if (request.pp && stages > 0 && *request.pp != stages)
    refuse("--pp " + text(*request.pp) + " and --layout " + list(request.layers) +
           " contradict each other: the layout has " + text(stages) + " stages");
  if (request.pp) shape.mesh.pp = *request.pp;
  if (stages > 0) shape.mesh.pp = stages;
  if (request.dp) shape.mesh.dp = *request.dp;
  if (request.schedule) {
    shape.schedule = {.kind = *request.schedule, .chunks = current.schedule.chunks, .csv = ""};
    for (const int chunks : {current.schedule.chunks, spec.schedule.chunks, 1, 2}) {
      shape.schedule.chunks = chunks;
      if (check_schedule(spec, shape).empty()) break;
    }
  }
  check_mesh(spec, shape);
  if (const std::string wrong = check_schedule(spec, shape); !wrong.empty()) refuse(wrong);
  if (stages > 0)
    shape.layout = layout_by(spec, shape, request.layers);
  else if (shape.mesh.pp != current.mesh.pp || request.schedule)
    shape.layout = layout_for(spec, shape);
  if (shape == current) refuse(to_string(request) + " is what the run has already");
  return shape;
}

std::optional<Shrunk> shrunk(const RunSpec& spec, const Shape& current, const std::set<int>& lost) {
  const auto [pp, dp] = current.mesh;
  std::vector<int> survivors(static_cast<std::size_t>(dp), pp);  // stages, by replica
  for (const int rank : lost)
    --survivors[static_cast<std::size_t>(place_of(current, rank).replica)];
  Shrunk smaller{.shape = current, .replicas = {}};
  auto& mesh = smaller.shape.mesh;
  for (int replica = 0; replica < dp; ++replica)
    if (survivors[static_cast<std::size_t>(replica)] == pp) smaller.replicas.push_back(replica);
  if (!smaller.replicas.empty()) {
    mesh.dp = static_cast<int>(smaller.replicas.size());
    while (mesh.dp > 0 && !fits(spec, smaller.shape)) --mesh.dp;
  } else {
    const auto fullest = std::ranges::max_element(survivors);
    smaller.replicas = {static_cast<int>(fullest - survivors.begin())};
    mesh.dp = 1;
    // A schedule may need more stages, or pairs of them; 1f1b runs on any number.
    for (const auto& schedule : {current.schedule, RunSpec::Schedule{}}) {
      smaller.shape.schedule = schedule;
      mesh.pp = *fullest;
      while (mesh.pp > 0 && !fits(spec, smaller.shape)) --mesh.pp;
      if (mesh.pp > 0) break;
    }
    if (mesh.pp > 0) smaller.shape.layout = layout_for(spec, smaller.shape);
  }
  if (mesh.pp < 1 || mesh.dp < 1) return std::nullopt;
  smaller.replicas.resize(static_cast<std::size_t>(mesh.dp));
  return smaller;
}

}  // namespace troupe::actors
