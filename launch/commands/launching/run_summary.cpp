#include "launch/commands/launching/run_summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "actors/topology/stage_devices.h"
#include "actors/topology/state/state_plan.h"
#include "actors/topology/validation.h"
#include "launch/host/quantities.h"
#include "launch/manifest/inputs/host_placement.h"
#include "schedules/plan/counted.h"
#include "stages/model/computation.h"

namespace troupe::launch {
namespace {

using schedules::counted;

/// The table of the parts of the model that each rank holds.
std::string place_rows(const Placement& placement) {
  std::string rows = fmt::format("{:>6}{:>9}{:>7}{:>7}{:>16}  {}\n", "rank", "replica", "stage",
                                 "shard", "parameters", "layers");
  for (const RankPlacement& r : placement.ranks)
    rows += fmt::format("{:>6}{:>9}{:>7}{:>7}{:>16}  {}\n", r.rank, r.replica, r.stage, r.shard,
                        grouped(r.parameters), r.layers.empty() ? "none" : ranges_text(r.layers));
  return rows;
}

/// The table of what each rank allocates, or of all that it takes of its GPU's memory.
std::string memory_rows(const Placement& placement) {
  constexpr auto kMemoryRow = "{:>6}{:>11}{:>11}{:>11}{:>12}{:>11}{:>12}{:>11}{:>11}\n";
  const bool on_gpu = placement.device_bytes() > 0;
  std::string rows =
      fmt::format(kMemoryRow, "rank", "weights", "gradients", "optimizer", "activations", "packed",
                  on_gpu ? "workspace" : "collectives", on_gpu ? "context" : "pools", "total");
  for (const RankPlacement& r : placement.ranks) {
    const auto& [stage, buckets, collectives, pools] = r.memory.allocated;
    rows += fmt::format(
        kMemoryRow, r.rank, bytes_text(stage.weights + stage.gathered),
        bytes_text(stage.gradients + stage.buckets + buckets), bytes_text(stage.optimizer),
        bytes_text(stage.activations + r.memory.edges), bytes_text(stage.packed),
        bytes_text(on_gpu ? r.memory.workspace : collectives),
        bytes_text(on_gpu ? r.memory.context : pools),
        bytes_text(r.memory.on_gpu ? r.memory.device_total() : r.memory.allocated.total()));
  }
  return rows;
}

std::string memory_lines(const Placement& placement) {
  const bool on_gpu = placement.device_bytes() > 0;
  std::string out =
      on_gpu ? fmt::format("memory    {} of GPUs and {} of the machine",
                           bytes_text(placement.device_bytes()), bytes_text(placement.host_bytes()))
             : fmt::format("memory    {}", bytes_text(placement.total_bytes()));
  out += " in all ranks";
  if (placement.spares > 0)
    out += fmt::format(" and {} of {}", counted(placement.spares, "spare"),
                       bytes_text(placement.spare_bytes));
  if (!on_gpu)
    out += fmt::format(": what each allocates, and {} for its process",
                       bytes_text(placement.ranks.front().memory.process));
  return out + '\n' + memory_rows(placement);
}

std::string mode_text(const stages::Recompute& recompute) {
  using Mode = stages::Recompute::Mode;
  if (recompute.mode == Mode::selective) return "selective (the core of attention)";
  if (recompute.mode == Mode::output) return "output (of norms and of the activation)";
  const bool is_block = recompute.method == stages::Recompute::Method::block;
  return fmt::format("full ({} {}{})", is_block ? "the first" : "groups of",
                     counted(recompute.num_layers, "layer"),
                     recompute.distribute_saved_activations ? ", inputs distributed" : "");
}

/// What is computed again and what that saves; empty if nothing is.
std::string recompute_lines(const stages::Recompute& recompute, const Placement& placement) {
  if (recompute.mode == stages::Recompute::Mode::none) return "";
  const std::int64_t saved = placement.saved_bytes;
  std::string out = "recompute " + mode_text(recompute);
  if (recompute.kept_microbatches > 0)
    out += fmt::format(", {} kept", counted(recompute.kept_microbatches, "microbatch"));
  out += fmt::format(": {} {} of activations\n", bytes_text(saved < 0 ? -saved : saved),
                     saved < 0 ? "more" : "less");
  if (recompute.mode == stages::Recompute::Mode::full)
    out += "          and the bubble counts what of F is computed again in I\n";
  return out;
}

/// What stages gain that do not wait for each other before they update their weights; empty if that
/// is nothing.
std::string validation_line(const actors::RunSpec& spec, const Placement& placement) {
  constexpr double kLeastGain = 0.005;
  const double gain = 1 - placement.ahead_share.value_or(1);
  if (actors::updates_ahead(spec))
    return fmt::format(
        "optimizer ahead of the norm of the whole gradient: steps are {:.1f} % shorter\n",
        100 * std::max(0.0, gain));
  if (gain < kLeastGain) return "";
  return fmt::format(
      "optimizer behind a barrier; optimizer.validation = \"post\" would make steps {:.1f} % "
      "shorter\n",
      100 * gain);
}

/// What the fullest rank allocates under each sharding of the state; empty for one replica.
std::string sharding_line(const Placement& placement) {
  if (placement.sharding.size() < 2) return "";
  std::vector<std::string> modes;
  for (const auto& [name, bytes] : placement.sharding)
    modes.push_back(fmt::format("{} {}", name, bytes_text(bytes)));
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  return fmt::format(
      "sharding  the fullest rank allocates, by data_parallel.sharding (least: {}):\n"
      "          {}\n",
      std::ranges::min_element(placement.sharding, less)->first, fmt::join(modes, ", "));
}

/// What recovery keeps of slices; empty if nothing is divided, or if none has a twin.
std::string twins_line(const actors::RunSpec& spec, const Placement& placement) {
  std::int64_t most = 0;
  for (const RankPlacement& rank : placement.ranks) most = std::max(most, rank.twin_bytes);
  if (most == 0) return "";
  return fmt::format(
      "twins     slices of another replica take {} of it, so that a death costs nothing;\n"
      "          recovery.neighbour_copies = false leaves them out\n{}",
      bytes_text(most),
      spec.mesh.dp == 2 ? "          with dp = 2 sharding saves little while they are kept\n" : "");
}

/// How long so many bytes take; empty if it is not known how many GB/s a rank sends.
std::string time_of(double bytes, double bandwidth) {
  if (bandwidth <= 0) return "";
  return fmt::format(": {} at {} GB/s if nothing hides it", span_text(bytes / bandwidth / 1e9),
                     bandwidth);
}

/// What a loss costs at most.
std::string loss_text(const actors::RunSpec& spec) {
  const std::int64_t steps = spec.recovery.copy_interval;
  return steps == 1 ? "a step" : fmt::format("{} steps", steps);
}

/// What of the model trains, if that is an adapter.
std::string adapter_line(const stages::ModelConfig& model) {
  if (!model.adapter) return "";
  const stages::Adapter& adapter = *model.adapter;
  stages::ModelConfig base = model;
  base.adapter.reset();
  return fmt::format(
      "adapter   rank {} of {}, scale {:.4g}; the base, {} of weights, has no gradients, moments "
      "or "
      "copies\n",
      adapter.rank, fmt::join(adapter.targets, ", "), adapter.scale(),
      bytes_text(4 * stages::num_parameters(base)));
}

/// What experts compute, and the rows of a microbatch for which memory is counted; empty without.
std::string experts_line(const actors::RunSpec& spec) {
  const stages::Experts& experts = spec.model.experts;
  if (experts.count == 0) return "";
  const std::int64_t rows = spec.batch.micro * spec.batch.seq_len * experts.per_token;
  const std::int64_t held = experts.count / spec.mesh.ep * experts.capacity;
  const std::int64_t most = spec.mesh.ep * (held > 0 ? std::min(rows, held) : rows);
  return fmt::format(
      "experts   {} a layer in {}, {} for a token, which {} parameters compute; {} of a rank at "
      "most\n",
      experts.count, counted(stages::num_routed_layers(spec.model), "layer"), experts.per_token,
      grouped(stages::num_active_parameters(spec.model)), counted(most, "row"));
}

/// What copies of state cost, if they are not made after every step or the bandwidth is known;
/// empty where no stage copies its state.
std::string copies_line(const actors::RunSpec& spec, const Placement& placement, double bandwidth) {
  const std::int64_t interval = spec.recovery.copy_interval;
  if (!actors::copies_state(spec, actors::first_shape(spec)) || (interval == 1 && bandwidth <= 0))
    return "";
  std::int64_t most = 0;
  for (const RankPlacement& rank : placement.ranks)
    most = std::max(most, 4 * (rank.parameters - rank.base) + 8 * rank.trained);
  return fmt::format(
      "copies    each rank sends its state, {} at most, to another after every {}{};\n"
      "          a lost worker costs {} at most\n",
      bytes_text(most), interval == 1 ? "step" : loss_text(spec),
      time_of(static_cast<double>(most), bandwidth), loss_text(spec));
}

/// What shards send each other at most; empty for stages of one shard.
std::string shards_line(const Placement& placement, double bandwidth) {
  double most = 0;
  for (const RankPlacement& rank : placement.ranks) most = std::max(most, rank.to_shards.count);
  if (most == 0) return "";
  return fmt::format("shards    each sends {} for its layers in a step{}\n",
                     bytes_text(static_cast<std::int64_t>(most)), time_of(most, bandwidth));
}

/// What each replica exchanges with others in a step; empty for one replica.
std::string replicas_line(const Placement& placement, double bandwidth) {
  std::int64_t most = 0;
  int gathers = 0, at_once = 0;
  for (const auto& [collectives, units] : placement.traffic) {
    std::int64_t bytes = 0;
    for (const auto& row : collectives) bytes += row.bytes;
    most = std::max(most, bytes);
    gathers = std::max(gathers, static_cast<int>(units.forward.size() + units.backward.size()));
    at_once = std::max(at_once, units.at_once);
  }
  if (most == 0) return "";
  std::string out = fmt::format("replicas  each reduces and gathers {} in a step{}",
                                bytes_text(most), time_of(static_cast<double>(most), bandwidth));
  if (gathers > 0)
    out += fmt::format(
        "\n          weights by embedding, layer, and norm with head: {} gathers, room for "
        "{} at once",
        gathers, at_once);
  return out + '\n';
}

/// What each stage waits for its shards' collectives and for divided weights, as a share of a step.
/// Empty if nothing is known of it.
std::string collectives_line(const Placement& placement) {
  if (!placement.expected) return "";
  const schedules::Simulation& expected = *placement.expected;
  if (std::ranges::max(expected.collective) == 0) return "";
  std::vector<std::string> shares;
  for (const double wait : expected.collective)
    shares.push_back(fmt::format("{:.1f} %", 100 * wait / expected.step));
  return fmt::format("waits     for collectives, by stage, {} of a step, by schedule.costs\n",
                     fmt::join(shares, ", "));
}

/// How activations get from GPU to GPU, and what that takes; empty if they do not.
std::string edges_line(const Placement& placement) {
  std::int64_t most = 0;
  bool is_peer = false, crosses = false;
  for (const RankPlacement& rank : placement.ranks) {
    most = std::max(most, rank.memory.edges);
    for (const auto& [peer, planned] : rank.memory.placements) {
      crosses |= planned != transport::EdgePlacement::local;
      is_peer |= planned == transport::EdgePlacement::peer;
    }
  }
  if (!crosses) return "";
  return fmt::format(
      "edges     {}; what stages send takes {} of a GPU at most, counted with its "
      "activations\n",
      is_peer ? "peer, where GPUs of a host reach each other, else staged"
              : "staged through pinned memory of the host",
      bytes_text(most));
}

/// What each group of parameters is, and what the optimizer does with it; empty without groups.
std::string group_lines(const Placement& placement) {
  std::string out;
  for (const auto& [group, tensors, parameters] : placement.groups) {
    const auto& [lr_scale, weight_decay, frozen, is_base] = group.update;
    out += fmt::format("{:<10}{}: {}, {} parameters", out.empty() ? "groups" : "", group.match,
                       counted(tensors, "tensor"), grouped(parameters));
    if (frozen) out += ", frozen";
    if (lr_scale != 1) out += fmt::format(", lr * {}", lr_scale);
    if (weight_decay) out += fmt::format(", weight decay {}", *weight_decay);
    out += '\n';
  }
  return out;
}

/// The hosts of the run, what each has and exchanges with others, and what the loss of one costs;
/// empty for a run on this machine alone.
std::string host_lines(const actors::RunSpec& spec, const Placement& placement) {
  const HostPlacement on = place_on_hosts(spec, placement);
  if (on.hosts.empty()) return "";
  const auto bytes = [](double count) { return bytes_text(static_cast<std::int64_t>(count)); };
  const auto over_network = std::ranges::count_if(on.stage_links, &StageLink::over_network);
  std::string out = fmt::format(
      "hosts     {}; of {} between stages {} over the network; what each sends and receives in a "
      "step:\n",
      std::ssize(on.hosts), counted(std::ssize(on.stage_links), "link"),
      over_network == 1 ? "1 is" : fmt::format("{} are", over_network));
  out += fmt::format("{:>16}{:>7}{:>12}{:>12}{:>12}  {}\n", "host", "slots", "memory", "sends",
                     "receives", "ranks");
  for (const auto& [host, ranks, memory, sent, received] : on.hosts)
    out += fmt::format("{:>16}{:>7}{:>12}{:>12}{:>12}  {}\n", host.name, host.slots,
                       bytes_text(memory), bytes(sent), bytes(received),
                       ranks.empty() ? "none" : ranges_text(ranks));
  const auto& of_stages = spec.cluster.stage_hosts;
  for (std::size_t stage = 0; stage < of_stages.size(); ++stage)
    if (!of_stages[stage].empty())
      out += fmt::format("          stage {} lies on {} alone\n", stage,
                         fmt::join(of_stages[stage], ", "));
  return out + (on.survives
                    ? fmt::format("          the loss of a host costs {} at most: memory of "
                                  "others has its state\n",
                                  loss_text(spec))
                    : "          the loss of a host may cost the steps since the last "
                      "checkpoint: no other has all of its state\n");
}

/// Which stages compute with what; empty if all do with the same.
std::string devices_line(const actors::RunSpec& spec) {
  const auto& kinds = spec.cluster.stage_kinds;
  std::string out;
  for (std::size_t stage = 0; stage < kinds.size(); ++stage)
    out += fmt::format("{} stage {} on {}", stage == 0 ? "devices  " : ",", stage,
                       kinds[stage] == tensor::DeviceKind::cuda ? "GPUs" : "CPUs");
  return out.empty() ? "" : out + "\n";
}

}  // namespace

std::string summary(const actors::RunSpec& spec, const Placement& placement, bool pinned,
                    double bandwidth) {
  const auto& model = spec.model;
  std::string out;
  out += fmt::format("run       {} in {}\n", spec.name, spec.dir);
  out += fmt::format("model     {}, {} parameters{}, {} of width {}, {}\n",
                     stages::name_of(model.kind), grouped(placement.parameters),
                     placement.trained == placement.parameters
                         ? ""
                         : fmt::format(" ({} train)", grouped(placement.trained)),
                     counted(model.num_hidden_layers, "layer"), model.hidden_size,
                     tensor::name_of(model.dtype));
  out += experts_line(spec);
  out += adapter_line(model);
  out += group_lines(placement);
  const bool joined = spec.batch.documents == stages::Documents::joined;
  out += fmt::format("batch     {} of {}{}, {}{} {} a step{}; {} of {}{}\n",
                     counted(spec.batch.global, "sample"), joined ? "" : "at most ",
                     counted(spec.batch.seq_len, "token"), joined ? "" : "at most ",
                     grouped(spec.global_tokens()), spec.global_tokens() == 1 ? "token" : "tokens",
                     joined ? "" : ", " + std::string(stages::name_of(spec.batch.documents)),
                     counted(spec.num_microbatches(), "microbatch"), spec.batch.micro,
                     spec.mesh.dp > 1 ? " a replica" : "");
  out += fmt::format("mesh      {} = {} of {}{}\n", to_string(spec.mesh),
                     counted(spec.num_ranks(), "rank"),
                     counted(spec.cluster.device.threads, "thread"), pinned ? ", pinned" : "");
  out += devices_line(spec);
  out +=
      fmt::format("schedule  {}, {}, bubble {:.1f} % if F, I and W cost the same, plan {:016x}\n",
                  spec.schedule.kind, counted(placement.plan.num_chunks(), "chunk"),
                  100 * placement.simulation.bubble_rate, placement.digest);
  out += validation_line(spec, placement);
  out += recompute_lines(spec.recompute, placement);
  out += edges_line(placement);
  out += shards_line(placement, bandwidth);
  out += replicas_line(placement, bandwidth);
  out += copies_line(spec, placement, bandwidth);
  out += collectives_line(placement);
  out += host_lines(spec, placement);
  out += place_rows(placement);
  return out + memory_lines(placement) + sharding_line(placement) + twins_line(spec, placement);
}

std::string gpu_lines(const Machine& machine, std::span<const int> order,
                      const actors::RunSpec& spec) {
  if (!machine.gpus) return "";
  if (!machine.gpus->fault.empty())
    return fmt::format("gpu       none to compare with: {}\n", machine.gpus->fault);
  std::string out;
  const std::vector<int> ranks = actors::ranks_on_gpus(spec);
  for (std::size_t turn = 0; turn < std::min(order.size(), ranks.size()); ++turn) {
    const auto& gpu = machine.gpus->devices[static_cast<std::size_t>(order[turn])];
    std::vector<int> on_it;
    for (std::size_t i = turn; i < ranks.size(); i += order.size()) on_it.push_back(ranks[i]);
    out += fmt::format("{:<10}{}: {}, {}, for {} {}\n", turn == 0 ? "gpu" : "", order[turn],
                       gpu.name, bytes_text(static_cast<std::int64_t>(gpu.memory_bytes)),
                       on_it.size() == 1 ? "rank" : "ranks", ranges_text(on_it));
  }
  return out;
}

std::string corpus_lines(const actors::RunSpec& spec, const Corpus& corpus) {
  const auto text = [](std::int64_t number, const char* noun) {
    return number == 1 ? counted(number, noun) : grouped(number) + " " + noun + "s";
  };
  std::string lines;
  for (const Corpus::Source& source : corpus.sources) {
    const double epochs = static_cast<double>(spec.max_steps) *
                          static_cast<double>(spec.batch.global) * source.share /
                          static_cast<double>(source.samples);
    lines += fmt::format("corpus    {}{}, {}; {}{} {} {:.2f} data epochs\n",
                         source.name.empty() ? "" : source.name + ": ",
                         text(source.tokens, "token"), text(source.samples, "sample"),
                         source.name.empty() ? "" : fmt::format("{:.1f} % of ", 100 * source.share),
                         text(spec.max_steps, "step"), spec.max_steps == 1 ? "is" : "are", epochs);
    for (const auto note : std::views::split(source.notes, '\n'))
      if (!note.empty())
        lines += fmt::format("          {}\n", std::string_view(note.begin(), note.end()));
  }
  if (!spec.data.rules.date.empty())
    lines += fmt::format("date      {}, of the chat template\n", spec.data.rules.date);
  return lines + fmt::format("text      {}\n", corpus.framing);
}

}  // namespace troupe::launch
