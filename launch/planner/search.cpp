#include "launch/planner/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "actors/topology/assembly.h"
#include "launch/host/machine.h"
#include "launch/host/quantities.h"
#include "launch/manifest/checks/check.h"
#include "launch/manifest/inputs/work.h"
#include "launch/manifest/resolve/resolve.h"
#include "launch/manifest/resolve/run_spec.h"

namespace troupe::launch {
namespace {

/// A layout may be faster than its estimate by this share.
constexpr double kEstimateMargin = 0.06;
/// At most so many layouts are simulated.
constexpr int kMostSimulated = 600;
constexpr const char* kForbidden = "other keys of the manifest";

bool crosses_hosts(const CandidateLayout& layout, const schedules::MachineModel& machine) {
  return layout.mesh.tp * layout.mesh.pp > machine.host.devices;
}

/// Simulates candidates and keeps the fastest that fit.
class Ranking {
 public:
  Ranking(const Manifest& manifest, const MachineDescription& machine, int top)
      : manifest_(manifest),
        model_(machine.model),
        base_(on_machine(to_run_spec(manifest), model_)),
        top_(static_cast<std::size_t>(top)) {}

  void consider(SearchSpace space) {
    result_.considered += space.considered;
    const auto changes_given = [&](const CandidateLayout& layout) { return !keeps_given(layout); };
    for (std::size_t i = std::erase_if(space.layouts, changes_given); i > 0; --i)
      exclude(result_.exclusions, kForbidden);
    for (const auto& [reason, exclusion] : space.exclusions) {
      Exclusion& all = result_.exclusions[reason];
      const std::int64_t least = exclusion.least_missing_bytes;
      all.count += exclusion.count;
      if (least > 0 && (all.least_missing_bytes == 0 || least < all.least_missing_bytes))
        all.least_missing_bytes = least;
    }
    int simulated = 0;
    for (const CandidateLayout& layout : space.layouts) {
      if (layout.estimate_s * (1 - kEstimateMargin) > slowest() || simulated == kMostSimulated)
        break;
      ++simulated;
      add(layout);
    }
  }

  SearchResult result() { return std::move(result_); }
  bool empty() const { return result_.layouts.empty(); }

 private:
  /// The time that a layout must stay below to be listed.
  double slowest() const {
    const auto& found = result_.layouts;
    return found.size() < top_ ? kInfinity : found.back().prediction.step.step_s;
  }

  void add(const CandidateLayout& layout) {
    const actors::RunSpec spec = with_layout(base_, layout);
    const actors::ClusterShape shape = actors::first_shape(spec);
    const auto step = schedules::predict_step(work_of(spec), actors::make_plan(spec),
                                              actors::layers_of(shape.layout), model_);
    if (step.step_s >= slowest()) return;
    const Prediction prediction = predict(spec, model_);
    if (!prediction.fits())
      return exclude(result_.exclusions, kNoMemory,
                     prediction.memory_bytes - prediction.room_bytes);
    if (!is_allowed(layout)) return exclude(result_.exclusions, kForbidden);
    insert({.layout = layout, .prediction = prediction});
  }

  /// Whether it has the values that a manifest with mesh.auto gives.
  bool keeps_given(const CandidateLayout& layout) const {
    const Manifest& m = manifest_;
    const auto stays = [&](const auto& member, auto value) {
      return !m.given(member) || member == value;
    };
    return !m->auto_mesh ||
           (stays(m->batch.micro, layout.micro) && stays(m->recompute.mode, layout.recompute) &&
            (layout.mesh.dp == 1 || stays(m->data_parallel.division, layout.division)));
  }

  bool is_allowed(const CandidateLayout& layout) const {
    try {
      with_layout(manifest_, layout);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  void insert(FoundLayout found) {
    const auto order = [&](const FoundLayout& f) {
      return std::tuple(f.prediction.step.step_s, crosses_hosts(f.layout, model_), f.layout.mesh.tp,
                        f.layout.mesh.pp);
    };
    auto& all = result_.layouts;
    all.insert(std::ranges::upper_bound(all, order(found), {}, order), std::move(found));
    if (all.size() > top_) all.pop_back();
  }

  const Manifest& manifest_;
  const schedules::MachineModel& model_;
  const actors::RunSpec base_;
  const std::size_t top_;
  SearchResult result_;
};

std::string why_none(const SearchResult& result, const MachineDescription& machine, int devices) {
  std::string text =
      fmt::format("no layout of {} devices of {} is possible", devices, machine.name);
  for (const auto& [reason, exclusion] : result.exclusions)
    text += fmt::format("; {} layouts: {}", grouped(exclusion.count), reason);
  const auto memory = result.exclusions.find(kNoMemory);
  if (memory == result.exclusions.end()) return text;
  return text + fmt::format("; at least {} of memory a device are missing: take more devices",
                            bytes_text(memory->second.least_missing_bytes));
}

}  // namespace

SearchResult search(const Manifest& manifest, const MachineDescription& machine, int devices,
                    int top) {
  Ranking ranking(manifest, machine, top);
  const auto of_host = static_cast<int>(machine.model.host.devices);
  const actors::RunSpec spec = on_machine(to_run_spec(manifest), machine.model);
  ranking.consider(search_space(spec, machine.model, devices, of_host));
  if (ranking.empty() && devices > of_host)
    ranking.consider(search_space(spec, machine.model, devices, 8 * of_host));
  SearchResult result = ranking.result();
  if (result.layouts.empty())
    throw Error(ErrorKind::unavailable, why_none(result, machine, devices));
  return result;
}

Manifest with_layout(Manifest manifest, const CandidateLayout& layout) {
  const auto set = [&](const auto& member, Value value) {
    manifest.override_with(manifest.key_of(member), std::move(value), "--search");
  };
  if (manifest->auto_mesh) set(manifest->auto_mesh, false);  // it has been found
  Stages tables = manifest->stages;  // all stages are as wide as the layout says
  for (Settings::Stage& stage : tables) stage.dp = stage.tp = 0;
  if (std::ranges::count(tables, Settings::Stage()) == std::ssize(tables)) tables.clear();
  if (tables != manifest->stages) set(manifest->stages, std::move(tables));
  set(manifest->mesh.tp, std::int64_t{layout.mesh.tp});
  set(manifest->mesh.pp, std::int64_t{layout.mesh.pp});
  set(manifest->mesh.dp, std::int64_t{layout.mesh.dp});
  set(manifest->mesh.ep, std::int64_t{layout.mesh.ep});
  set(manifest->mesh.etp, std::int64_t{layout.mesh.etp});
  set(manifest->mesh.sequence_parallel, layout.mesh.sequence_parallel);
  set(manifest->layout, layout.split);
  set(manifest->schedule.kind, layout.kind);
  set(manifest->schedule.chunks, std::int64_t{layout.chunks});
  set(manifest->batch.micro, layout.micro);
  const auto choice = [&](const auto& member, auto value) {
    const Key& key = manifest.key_of(member);
    set(member, std::string(key.member.choices[static_cast<std::size_t>(value)]));
  };
  choice(manifest->recompute.mode, layout.recompute);
  choice(manifest->data_parallel.division, layout.division);
  resolve(manifest, this_machine());
  check(manifest);
  return manifest;
}

}  // namespace troupe::launch
