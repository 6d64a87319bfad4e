#include "actors/scale.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "actors/layer_split.h"
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

/// Empty, or why no rule can give each chunk a layer.
std::string check_layers(const RunSpec& spec, const Shape& shape) {
  const int pp = shape.mesh.pp, chunks = shape.schedule.chunks, layers = layers_of(spec);
  const int copies = copies_of(shape.schedule);
  const int most = layers * copies / chunks;
  if (pp <= most) return "";
  return "--pp " + text(pp) + ": " + text(std::int64_t{pp} * chunks) +
         " chunks need a layer each, but the model has " + text(layers) +
         (copies > 1 ? " in " + text(copies) + " copies" : "") + "; at most --pp " + text(most);
}

void check_mesh(const RunSpec& spec, const Shape& shape) {
  const auto [pp, dp] = shape.mesh;
  if (pp < 1) refuse("--pp " + text(pp) + ": at least 1 stage is needed");
  if (dp < 1) refuse("--dp " + text(dp) + ": at least 1 replica is needed");
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

schedules::Plan plan_of(const RunSpec& spec, const Shape& shape) {
  RunSpec changed = spec;
  changed.mesh = shape.mesh;
  changed.schedule = shape.schedule;
  return make_plan(changed);
}

/// The shape's own layout where the new plan keeps every chunk in its place, else by the run's
/// rule. Throws where that has no layer for some chunk.
Layout layout_for(const RunSpec& spec, const Shape& shape) {
  const schedules::Plan plan = plan_of(spec, shape);
  const auto& chunks = shape.layout.chunks;
  if (std::ranges::equal(chunks, plan.rank_of_chunk, {}, &Layout::Chunk::stage) &&
      shape.layout.copies() == plan.num_copies)
    return shape.layout;
  if (const auto wrong = check_layers(spec, shape); !wrong.empty()) refuse(wrong);
  const auto rule = rule_of(parse_split(spec.layout));
  return layout_of(split_layers(rule, spec.model, plan.chunks_per_copy()), plan.rank_of_chunk);
}

/// What --layout says, or nothing without it; in messages it is named as it was given.
template <typename F>
auto in_layout(const ScaleRequest& request, const F& body) {
  try {
    return body();
  } catch (const Error& error) {
    refuse("--layout " + *request.layout + " " + error.what());
  }
}

/// Sets the schedule's chunks, and the stages where only the layout tells how many there are.
void take_chunks(const ScaleRequest& request, int chunks_of_copy, int chunks, Shape& shape) {
  shape.schedule.chunks = chunks;
  if (chunks_of_copy > 0 && !request.pp)
    shape.mesh.pp = std::max(1, chunks_of_copy * copies_of(shape.schedule) / chunks);
}

/// Empty, or why the chunks of --layout are not those of the shape.
std::string check_chunks(const ScaleRequest& request, int chunks_of_copy, const Shape& shape) {
  const int chunks = shape.schedule.chunks;
  const std::int64_t needed = std::int64_t{shape.mesh.pp} * chunks / copies_of(shape.schedule);
  if (chunks_of_copy == 0 || chunks_of_copy == needed) return "";
  const std::string layout = "--layout " + *request.layout;
  return (request.pp ? "--pp " + text(*request.pp) + " and " + layout + " contradict each other"
                     : layout) +
         ": the layout has " + text(chunks_of_copy) + " chunks, but " + text(shape.mesh.pp) +
         " stages with schedule.chunks = " + text(chunks) + " have " + text(needed);
}

bool fits(const RunSpec& spec, const Shape& shape) {
  try {
    check_mesh(spec, shape);
  } catch (const Error&) {
    return false;
  }
  return check_schedule(spec, shape).empty();
}

/// The current shape with the mesh and the schedule of the request; its layout is still the old
/// one.
Shape meshed(const RunSpec& spec, const Shape& current, const ScaleRequest& request,
             int chunks_of_copy) {
  Shape shape = current;
  if (request.pp) shape.mesh.pp = *request.pp;
  if (request.dp) shape.mesh.dp = *request.dp;
  // A plan of one's own is for one mesh, however the layers are split.
  if (shape.schedule.kind == "csv" && !request.schedule && shape.mesh == current.mesh) return shape;
  if (shape.mesh.pp != current.mesh.pp) shape.schedule.costs.clear();
  if (request.schedule)
    shape.schedule = {.kind = *request.schedule, .chunks = 1, .csv = "", .costs = request.costs};
  for (const int chunks : {current.schedule.chunks, spec.schedule.chunks, 1, 2}) {
    take_chunks(request, chunks_of_copy, chunks, shape);
    if (!request.schedule || (check_chunks(request, chunks_of_copy, shape).empty() &&
                              check_schedule(spec, shape).empty()))
      break;
  }
  if (const auto wrong = check_chunks(request, chunks_of_copy, shape); !wrong.empty())
    refuse(wrong);
  check_mesh(spec, shape);
  const bool by_rule = chunks_of_copy == 0 && (request.layout || shape.mesh.pp != current.mesh.pp);
  if (const auto wrong = check_layers(spec, shape); by_rule && !wrong.empty()) refuse(wrong);
  if (const std::string wrong = check_schedule(spec, shape); !wrong.empty()) refuse(wrong);
  return shape;
}

}  // namespace

std::string to_string(const ScaleRequest& request) {
  std::string out;
  const auto add = [&out](const std::string& option, const std::string& value) {
    out += (out.empty() ? "--" : " --") + option + " " + value;
  };
  if (request.pp) add("pp", text(*request.pp));
  if (request.dp) add("dp", text(*request.dp));
  if (request.layout) add("layout", request.layout->empty() ? "even" : *request.layout);
  if (request.schedule) add("schedule", *request.schedule);
  return out;
}

Shape scaled(const RunSpec& spec, const Shape& current, const ScaleRequest& request) {
  std::optional<LayerSplit> split;
  if (request.layout) split = in_layout(request, [&] { return parse_split(*request.layout); });
  Shape shape = meshed(spec, current, request, split ? static_cast<int>(split->layers.size()) : 0);
  if (split) {
    const schedules::Plan plan = plan_of(spec, shape);
    shape.layout = in_layout(request, [&] {
      return layout_of(split_layers(*split, spec.model, plan.chunks_per_copy()),
                       plan.rank_of_chunk);
    });
  } else if (shape.mesh.pp != current.mesh.pp || request.schedule) {
    shape.layout = layout_for(spec, shape);
  }
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
      smaller.shape.schedule.costs.clear();  // of other stages
      mesh.pp = *fullest;
      while (mesh.pp > 0 &&
             !(fits(spec, smaller.shape) && check_layers(spec, smaller.shape).empty()))
        --mesh.pp;
      if (mesh.pp > 0) break;
    }
    if (mesh.pp > 0) smaller.shape.layout = layout_for(spec, smaller.shape);
  }
  if (mesh.pp < 1 || mesh.dp < 1) return std::nullopt;
  smaller.replicas.resize(static_cast<std::size_t>(mesh.dp));
  return smaller;
}

}  // namespace troupe::actors
