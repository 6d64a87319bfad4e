#include "launch/planner/search_space.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "actors/topology/layers/layer_split.h"
#include "actors/topology/shape_rules.h"
#include "launch/manifest/inputs/work.h"
#include "launch/manifest/keys/key.h"
#include "schedules/planner/memory_estimate.h"
#include "schedules/planner/step_prediction.h"
#include "stages/model/sharding.h"

namespace troupe::launch {
namespace {

using Mode = stages::Recompute::Mode;
using Division = stages::StateDivision;

/// Interleaved schedules have at most so many chunks a stage: more hops cost what they save.
constexpr int kMostChunks = 16;
/// A formula that counts less than the device has, by this factor, may be of a layout that fits.
constexpr double kMemoryMargin = 0.8;

struct Kind {
  const char* name;
  bool interleaves, splits_backward;
  schedules::Held held;
};
constexpr std::array kKinds{Kind{"1f1b", false, false, schedules::Held::one_f_one_b},
                            Kind{"interleaved", true, false, schedules::Held::interleaved},
                            Kind{"zb-h1", false, true, schedules::Held::one_f_one_b},
                            Kind{"gpipe", false, false, schedules::Held::all}};

int most_of(const char* table, const char* name) {
  return static_cast<int>(find_key(table, name)->rule->max);
}

/// Goes through the space. A reason found early excludes all layouts below it, one by one.
class Space {
 public:
  Space(const actors::RunSpec& spec, const schedules::MachineModel& machine, int devices)
      : spec_(spec), machine_(machine), devices_(devices), most_dp_(most_of("mesh", "dp")) {
    spec_.layout.clear();
    if (spec.recompute.mode == Mode::none || only_mode(spec.recompute))
      modes_ = {Mode::none, Mode::selective, Mode::output, Mode::full};
    else
      modes_ = {spec.recompute.mode};  // its other keys belong to this mode
    for (int ep = 1; ep <= devices; ++ep)
      if (stages::shares_experts(spec.model, ep)) sharers_.push_back(ep);
  }

  SearchSpace find(int most_shards) {
    for (int tp = 1; tp <= std::min(most_shards, devices_); ++tp) {
      if (devices_ % tp != 0) continue;
      for (const bool divides_sequence : {false, true})
        if (tp > 1 || !divides_sequence) of_shards(tp, divides_sequence);
    }
    std::ranges::stable_sort(out_.layouts, {}, [](const CandidateLayout& layout) {
      return std::tuple(layout.estimate_s, layout.mesh.tp, layout.mesh.pp);
    });
    return std::move(out_);
  }

 private:
  static bool only_mode(const stages::Recompute& recompute) {
    return recompute == stages::Recompute{.mode = recompute.mode};
  }

  void of_shards(int tp, bool divides_sequence) {
    actors::RunSpec::Mesh mesh{.tp = tp, .sequence_parallel = divides_sequence};
    spec_.mesh = mesh;
    const std::string fault = actors::fault_of_shards(spec_, mesh.sequence_parallel, mesh.tp);
    if (!fault.empty()) return leave_out("shards that do not divide heads, widths or sequences");
    for (std::int64_t micro = 1; micro <= spec_.batch.global; ++micro) {
      if (spec_.batch.global % micro != 0 || (micro & (micro - 1)) != 0) continue;
      for (const Mode mode : modes_)
        for (const int ep : sharers_)
          for (const int etp : {0, 1}) {
            if (etp == 1 && !(divides_sequence && spec_.model.experts.count > 0)) break;
            mesh.ep = ep;
            mesh.etp = etp;
            of_pass(mesh, micro, mode);
          }
    }
  }

  /// All whose layers take the same.
  void of_pass(actors::RunSpec::Mesh mesh, std::int64_t micro, Mode mode) {
    spec_.mesh = mesh;
    spec_.batch.micro = micro;
    spec_.recompute.mode = mode;
    const schedules::Work work = work_of(spec_);
    const schedules::Operations operations(machine_, work.element_bytes, devices_);
    const schedules::LayoutCosts costs = schedules::layout_costs(work, operations);
    const int left = devices_ / mesh.tp;
    for (int pp = 1; pp <= left; ++pp) {
      if (left % pp != 0) continue;
      mesh.pp = pp;
      mesh.dp = left / pp;
      if (pp > spec_.model.num_hidden_layers)
        leave_out("more chunks than layers");
      else if (mesh.dp > most_dp_)
        leave_out("more replicas than mesh.dp may have");
      else if (!actors::fault_of_experts(spec_, mesh).empty())
        leave_out("replicas or shards that cannot have experts so");
      else if (spec_.batch.global % (micro * mesh.dp) != 0)
        leave_out("a batch that micro * dp does not divide");
      else
        of_mesh(mesh, micro, mode, operations, costs);
    }
  }

  void of_mesh(const actors::RunSpec::Mesh& mesh, std::int64_t micro, Mode mode,
               const schedules::Operations& operations, const schedules::LayoutCosts& costs) {
    spec_.mesh = mesh;
    for (const Kind& kind : kKinds) {
      if (mesh.pp == 1 && &kind != &kKinds.front()) break;
      const int most = kind.interleaves ? kMostChunks : 1;
      for (int chunks = kind.interleaves ? 2 : 1; chunks <= most; ++chunks) {
        if (std::int64_t{mesh.pp} * chunks > spec_.model.num_hidden_layers) {
          leave_out("more chunks than layers");
          break;
        }
        const actors::RunSpec::Schedule schedule{.kind = kind.name, .chunks = chunks};
        if (!actors::fault_of_schedule(spec_.batch, mesh, schedule).empty()) {
          leave_out("a schedule without a plan for these stages and microbatches");
          continue;
        }
        for (const char* split : {"", "ends"})
          if (*split == 0 || mesh.pp * chunks > 1)
            of_schedule({.mesh = mesh,
                         .split = split,
                         .kind = kind.name,
                         .chunks = chunks,
                         .micro = micro,
                         .recompute = mode},
                        kind, operations, costs);
      }
    }
  }

  void of_schedule(CandidateLayout layout, const Kind& kind,
                   const schedules::Operations& operations, const schedules::LayoutCosts& costs) {
    const std::vector<int> layers = actors::split_layers(
        actors::parse_split(layout.split), spec_.model, layout.mesh.pp * layout.chunks);
    for (const Division division :
         {Division::none, Division::optim, Division::optim_grads, Division::optim_grads_params}) {
      if (layout.mesh.dp == 1 && division != Division::none) break;
      ++out_.considered;
      spec_.data_parallel.division = layout.division = division;
      const schedules::Work work = work_of(spec_);
      const double bytes = schedules::estimate_memory(work, layers, layout.chunks, kind.held);
      const double room = machine_.device.memory_gib * (1 << 30);
      if (kMemoryMargin * bytes > room) {
        exclude(out_.exclusions, kNoMemory, std::llround(bytes - room));
        continue;
      }
      layout.estimate_s = schedules::estimate_step(
          work, operations, costs, layers,
          {.chunks = layout.chunks, .splits_backward = kind.splits_backward});
      out_.layouts.push_back(layout);
    }
  }

  void leave_out(const char* reason) {
    ++out_.considered;
    exclude(out_.exclusions, reason);
  }

  actors::RunSpec spec_;  // of the layout that is looked at
  const schedules::MachineModel& machine_;
  int devices_;
  int most_dp_;
  std::vector<Mode> modes_;
  std::vector<int> sharers_;  // replicas that may share experts out; 1 alone without experts
  SearchSpace out_;
};

}  // namespace

void exclude(Exclusions& exclusions, const std::string& reason, std::int64_t missing_bytes) {
  Exclusion& exclusion = exclusions[reason];
  ++exclusion.count;
  if (missing_bytes == 0) return;
  std::int64_t& least = exclusion.least_missing_bytes;
  least = least == 0 ? missing_bytes : std::min(least, missing_bytes);
}

actors::RunSpec with_layout(actors::RunSpec spec, const CandidateLayout& layout) {
  spec.mesh = layout.mesh;
  spec.layout = layout.split;
  spec.schedule.kind = layout.kind;
  spec.schedule.chunks = layout.chunks;
  spec.batch.micro = layout.micro;
  spec.recompute.mode = layout.recompute;
  spec.data_parallel.division = layout.division;
  return spec;
}

SearchSpace search_space(const actors::RunSpec& spec, const schedules::MachineModel& machine,
                         int devices, int most_shards) {
  return Space(spec, machine, devices).find(most_shards);
}

}  // namespace troupe::launch
