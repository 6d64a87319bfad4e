#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "actors/topology/validation.h"
#include "launch/commands/launching/best_layout.h"
#include "launch/commands/launching/plan_on_machine.h"
#include "launch/commands/launching/run_summary.h"
#include "launch/commands/launching/sinks.h"
#include "launch/commands/options.h"
#include "launch/control/event_json.h"
#include "launch/host/console.h"
#include "launch/host/progress_line.h"
#include "launch/manifest/inputs/differences.h"
#include "launch/manifest/inputs/host_placement.h"
#include "launch/manifest/inputs/inputs.h"
#include "launch/manifest/inputs/warnings.h"
#include "launch/manifest/resolve/run_spec.h"
#include "launch/run/result_file.h"
#include "schedules/drawing/draw.h"
#include "tensor/libraries/gpu_choice.h"

namespace troupe::launch {
namespace {

using nlohmann::json;

json group_json(const stages::ParameterGroup& group) {
  const auto& [lr_scale, weight_decay, frozen, is_base] = group.update;
  json out{{"match", group.match}, {"lr_scale", lr_scale}, {"frozen", frozen}};
  if (weight_decay) out["weight_decay"] = *weight_decay;
  return out;
}

/// The resolved manifest as JSON, an object for each table.
json manifest_json(const Manifest& manifest) {
  std::ostringstream text;
  text << toml::json_formatter(toml::parse(manifest.to_toml(Manifest::Keys::all)));
  json out = json::parse(text.str());
  // In TOML a group leaves out what it has by default.
  std::ranges::transform(manifest->model.groups, out["optimizer"]["group"].begin(), group_json);
  return out;
}

/// By each rank that one on a GPU exchanges messages with, where their slots will lie. Between
/// hosts that is the host's memory.
json edges_json(const Placement& placement, const RankPlacement& of) {
  const auto host = [&](int rank) {
    return placement.host_of_rank.empty() ? 0
                                          : placement.host_of_rank[static_cast<std::size_t>(rank)];
  };
  json edges = json::object();
  for (const auto& [peer, planned] : of.memory.placements)
    edges[std::to_string(peer)] =
        host(peer) == host(of.rank) ? transport::name_of(planned) : "staged";
  return edges;
}

/// `gpus`: order_of_gpus().
json ranks_json(const actors::RunSpec& spec, const Placement& placement, std::span<const int> gpus,
                double bandwidth) {
  json rows = json::array();
  int turn = 0;  // of the next rank on a GPU
  for (const RankPlacement& r : placement.ranks) {
    rows.push_back({{"rank", r.rank},
                    {"replica", r.replica},
                    {"stage", r.stage},
                    {"shard", r.shard},
                    {"layers", r.layers},
                    {"parameters", r.parameters},
                    {"trained_parameters", r.trained},
                    {"memory_bytes", r.memory.allocated},
                    {"estimated_bytes",
                     {{"workspace", r.memory.workspace},
                      {"context", r.memory.context},
                      {"process", r.memory.process}}},
                    {"device_bytes", r.memory.device_total()},
                    {"formula_bytes",
                     {{"weights", r.formula.weights},
                      {"gradients", r.formula.gradients},
                      {"optimizer", r.formula.optimizer}}},
                    {"to_shards_bytes", r.to_shards.count}});
    if (r.memory.on_gpu) {
      rows.back()["communicators"] = r.memory.communicators;
      rows.back()["edges"] = edges_json(placement, r);
      rows.back()["edges_bytes"] = r.memory.edges;
    }
    if (!gpus.empty() && r.memory.on_gpu) rows.back()["gpu"] = tensor::turn_of(turn++, gpus);
    if (!spec.cluster.stage_kinds.empty()) rows.back()["device"] = r.memory.on_gpu ? "cuda" : "cpu";
    if (bandwidth > 0) rows.back()["to_shards_s"] = r.to_shards.count / bandwidth / 1e9;
  }
  return rows;
}

/// What the first rank of each stage exchanges with its replicas in a step.
json collectives_json(const Placement& placement) {
  json rows = json::array();
  for (std::size_t stage = 0; stage < placement.traffic.size(); ++stage)
    for (const auto& [operation, count, bytes] : placement.traffic[stage].collectives)
      rows.push_back({{"stage", stage}, {"op", operation}, {"count", count}, {"bytes", bytes}});
  return rows;
}

/// The units of divided weights that the first rank of each stage gathers in a step, in order.
json gathers_json(const Placement& placement) {
  json rows = json::array();
  for (std::size_t stage = 0; stage < placement.traffic.size(); ++stage) {
    const auto& [forward, backward, at_once] = placement.traffic[stage].gathers;
    if (at_once == 0) continue;
    rows.push_back(
        {{"stage", stage}, {"at_once", at_once}, {"forward", forward}, {"backward", backward}});
  }
  return rows;
}

json groups_json(const Placement& placement) {
  json rows = json::array();
  for (const auto& [group, tensors, parameters] : placement.groups) {
    rows.push_back(group_json(group));
    rows.back()["tensors"] = tensors;
    rows.back()["parameters"] = parameters;
  }
  return rows;
}

json schedule_json(const actors::RunSpec& spec, const Placement& placement) {
  json out{{"kind", spec.schedule.kind},
           {"bubble_rate", placement.simulation.bubble_rate},
           {"updates_ahead", actors::updates_ahead(spec)}};
  if (placement.ahead_share) out["ahead_share"] = *placement.ahead_share;
  if (!placement.expected) return out;
  // By stage; the shards of a stage do the same.
  out["collective_share"] = json::array();
  for (const double wait : placement.expected->collective)
    out["collective_share"].push_back(wait / placement.expected->step);
  return out;
}

/// Adds how the run lies on its hosts, if it names some.
void add_hosts(json& out, const HostPlacement& placement) {
  if (placement.hosts.empty()) return;
  for (const auto& [host, ranks, memory, sent, received] : placement.hosts)
    out["hosts"].push_back({{"host", host.name},
                            {"slots", host.slots},
                            {"ranks", ranks},
                            {"memory_bytes", memory},
                            {"sent_bytes", sent},
                            {"received_bytes", received}});
  out["copies"] = out["stage_links"] = out["host_links"] = json::array();
  for (const auto& [rank, copy_on] : placement.copies)
    out["copies"].push_back({{"rank", rank}, {"copy_on", copy_on}});
  for (const auto& [replica, from, to, over_network] : placement.stage_links)
    out["stage_links"].push_back({{"replica", replica},
                                  {"from", from},
                                  {"to", to},
                                  {"link", over_network ? "network" : "host"}});
  const auto name = [&](int host) {
    return placement.hosts[static_cast<std::size_t>(host)].host.name;
  };
  for (const auto& [from, to, bytes] : placement.links)
    out["host_links"].push_back({{"from", name(from)}, {"to", name(to)}, {"bytes", bytes}});
  out["host_loss"] = placement.survives ? "memory" : "checkpoint";
}

/// The schedule drawn as text; empty if it does not fit a screen.
std::string grid_of(const Placement& placement) {
  constexpr std::size_t kMostColumns = 100;
  const auto& simulation = placement.simulation;
  // A slot takes at least two columns, so a schedule that is certainly too wide is not even drawn.
  if (2 * simulation.wall <= kMostColumns * schedules::slot_length(simulation)) {
    const std::string grid = schedules::to_grid(placement.plan, simulation);
    if (grid.find('\n') <= kMostColumns) return grid + "\n";
  }
  return "The schedule of a step is too wide for this text; --svg FILE draws it.\n\n";
}

/// Fewer ranks are planned at once.
constexpr int kManyRanks = 64;

stages::Progress progress_of(const actors::RunSpec& spec, const PlanOptions& options) {
  if (options.json || spec.num_ranks() < kManyRanks) return {};
  return progress_of_parts(fmt::format("planning the memory of {} ranks", spec.num_ranks()));
}

}  // namespace

int run(const PlanOptions& options) {
  if (!options.machine.empty()) return plan_on_machine(options);
  Machine machine = this_machine();
  Manifest manifest = load_manifest(options.manifest, options.overrides, machine);
  if (!options.hosts.empty())
    manifest.override_with(manifest.key_of(manifest->hosts), std::vector{options.hosts},
                           "--hosts " + options.hosts);
  check_hosts(monitor_addresses(manifest));
  if (manifest->auto_mesh)
    manifest = with_best_layout(manifest, {.hosts = to_run_spec(manifest).cluster.hosts}, machine);
  look_for_gpus(manifest, machine);
  const std::vector<int> gpus = order_of_gpus(manifest, machine);
  const auto goes_on_from =
      check_start(manifest, options.json ? nullptr : progress_line("verifying the checkpoint,"),
                  machine.free_threads);
  const actors::RunSpec spec = to_run_spec(manifest, machine);
  const Placement placement = place(spec, progress_of(spec, options));
  for (const std::string& warning : warnings(spec, placement, machine))
    print_error("warning: " + warning);
  if (goes_on_from)
    for (const std::string& difference : differences(manifest, *goes_on_from).all())
      print_error("differs from the checkpoint: " + difference);
  if (!options.svg.empty())
    ResultFile(options.svg).write(schedules::to_svg(placement.plan, placement.simulation));
  if (options.json) {
    json out{{"manifest", manifest_json(manifest)},
             {"parameters", placement.parameters},
             {"trained_parameters", placement.trained},
             {"groups", groups_json(placement)},
             {"recompute_saved_bytes", placement.saved_bytes},
             {"sharding", placement.sharding},
             {"collectives", collectives_json(placement)},
             {"gathers", gathers_json(placement)},
             {"ranks", ranks_json(spec, placement, gpus, options.bandwidth)},
             {"schedule", schedule_json(spec, placement)}};
    if (spec.model.experts.count > 0)
      out["active_parameters"] = stages::num_active_parameters(spec.model);
    add_hosts(out, place_on_hosts(spec, placement));
    print(out.dump(2) + "\n");
  } else {
    print(summary(spec, placement, *manifest->cluster.pin, options.bandwidth) +
          gpu_lines(machine, gpus, spec) + "\n" + grid_of(placement) +
          manifest.to_toml(options.all ? Manifest::Keys::all : Manifest::Keys::given));
  }
  return 0;
}

}  // namespace troupe::launch
