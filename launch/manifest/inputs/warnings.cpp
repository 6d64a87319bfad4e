#include "launch/manifest/inputs/warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "launch/host/quantities.h"
#include "launch/manifest/inputs/differences.h"
#include "schedules/plan/counted.h"
#include "stages/files/checkpoint/checkpoint.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

using schedules::counted;

/// The memory of the GPU that ranks would share; 0 if there is none to compare with.
std::int64_t memory_of_gpu(const Machine& machine) {
  if (!machine.gpus || machine.gpus->emulates || machine.gpus->devices.empty()) return 0;
  return static_cast<std::int64_t>(machine.gpus->devices.front().memory_bytes);
}

/// The first host that has less memory than its ranks need, as a phrase; empty if none is known to.
std::string shortage_of_host(const actors::RunSpec& spec, const Placement& placement) {
  std::vector<std::int64_t> bytes(spec.cluster.hosts.size()), ranks(bytes);
  for (std::size_t rank = 0; rank < placement.ranks.size(); ++rank) {
    const auto host = static_cast<std::size_t>(placement.host_of_rank[rank]);
    bytes[host] += placement.ranks[rank].memory.host_total();
    ++ranks[host];
  }
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (const actors::Host& host = spec.cluster.hosts[i];
        host.memory_bytes > 0 && bytes[i] > host.memory_bytes)
      return fmt::format("{} would take {} in all, but {} has {}", counted(ranks[i], "rank"),
                         bytes_text(bytes[i]), host.name, bytes_text(host.memory_bytes));
  return "";
}

/// What the ranks need and what the machine has, as a phrase for messages; empty if memory is
/// enough.
std::string shortage(const actors::RunSpec& spec, const Placement& placement,
                     const Machine& machine) {
  if (!spec.cluster.hosts.empty())  // without room for all ranks a smaller cluster starts
    return placement.host_of_rank.empty() ? "" : shortage_of_host(spec, placement);
  std::string who = counted(spec.num_ranks(), "rank");
  if (placement.spares > 0) who += " and " + counted(placement.spares, "spare");
  const std::int64_t gpu_bytes = memory_of_gpu(machine);
  if (gpu_bytes > 0 && placement.device_bytes() > gpu_bytes)
    return fmt::format("{} would take {} in all, but the GPU ({}) has {}", who,
                       bytes_text(placement.device_bytes()), machine.gpus->devices.front().name,
                       bytes_text(gpu_bytes));
  if (placement.host_bytes() <= machine.memory_bytes) return "";
  return fmt::format(
      "{} would take {} in all, but {} {}", who, bytes_text(placement.host_bytes()),
      machine.memory_is_limited ? "the limit of this control group is" : "this machine has",
      bytes_text(machine.memory_bytes));
}

/// The sharding with the fewest messages that would fit, as advice; empty if none would.
std::string fitting_sharding(const Placement& placement, const Machine& machine) {
  const auto ranks = static_cast<std::int64_t>(placement.ranks.size()) + placement.spares;
  for (const char* const name : {"optim", "optim_grads", "optim_grads_params"})
    if (const auto found = placement.sharding.find(name);
        found != placement.sharding.end() && found->second * ranks <= machine.memory_bytes)
      return fmt::format(", or data_parallel.sharding = \"{}\", with which {} would take {}", name,
                         counted(ranks, "rank"), bytes_text(found->second * ranks));
  return "";
}

/// Checkpoints that no evaluation can show to be the best.
std::string best_warning(const actors::RunSpec& spec) {
  const std::int64_t saved = spec.checkpoint.interval, evaluated = spec.eval.interval;
  if (spec.checkpoint.keep_best == 0 || saved == 0 || saved % evaluated == 0) return "";
  return fmt::format(
      "checkpoint.keep_best compares checkpoints that are evaluated, one in {}: "
      "checkpoint.interval "
      "= {} is no multiple of eval.interval = {}",
      std::lcm(saved, evaluated) / saved, saved, evaluated);
}

/// Groups that GPUs cannot form by themselves.
std::string collectives_warning(const Placement& placement, const Machine& machine) {
  const auto has_groups = [](const RankPlacement& rank) { return rank.memory.communicators > 0; };
  if (!machine.gpus || machine.gpus->collectives_fault.empty() ||
      std::ranges::none_of(placement.ranks, has_groups))
    return "";
  return machine.gpus->collectives_fault +
         ": collectives are staged through host memory, which is slower than NCCL";
}

}  // namespace

std::vector<std::string> warnings(const actors::RunSpec& spec, const Placement& placement,
                                  const Machine& machine) {
  std::vector<std::string> texts{memory_warning(spec, placement, machine),
                                 spec.cluster.hosts.empty() ? cores_warning(spec, machine)
                                                            : cores_of_hosts(spec, placement),
                                 disk_warning(spec, placement, free_disk_bytes(spec.dir)),
                                 dead_steps_warning(spec),
                                 best_warning(spec),
                                 collectives_warning(placement, machine)};
  std::erase(texts, "");
  return texts;
}

void check_memory(const actors::RunSpec& spec, const Placement& placement, const Machine& machine,
                  const std::string& name) {
  const std::string text = shortage(spec, placement, machine);
  if (text.empty()) return;
  throw Error(
      ErrorKind::manifest,
      fmt::format(
          "{}: {}; take a smaller batch.micro (now {}), batch.seq_len (now {}) or model{}{}", name,
          text, spec.batch.micro, spec.batch.seq_len, fitting_sharding(placement, machine),
          spec.recompute.mode == stages::Recompute::Mode::full ? ""
                                                               : ", or recompute.mode = \"full\""));
}

std::string memory_warning(const actors::RunSpec& spec, const Placement& placement,
                           const Machine& machine) {
  const std::string text = shortage(spec, placement, machine);
  return text.empty() ? "" : text + "; launch refuses it here";
}

std::string cores_warning(const actors::RunSpec& spec, const Machine& machine) {
  const std::int64_t threads = std::int64_t{spec.num_ranks()} * spec.cluster.device.threads;
  if (threads <= machine.free_cores) return "";
  return fmt::format("{} of {} compute on {}{}: cores are shared, and ranks wait for each other",
                     counted(spec.num_ranks(), "rank"),
                     counted(spec.cluster.device.threads, "thread"),
                     counted(machine.free_cores, "core"), machine.cpu_quota ? " (by a quota)" : "");
}

std::string cores_of_hosts(const actors::RunSpec& spec, const Placement& placement) {
  for (std::size_t i = 0; i < spec.cluster.hosts.size(); ++i) {
    const actors::Host& host = spec.cluster.hosts[i];
    const auto ranks = std::ranges::count(placement.host_of_rank, static_cast<int>(i));
    const std::int64_t threads = ranks * spec.cluster.device.threads;
    if (host.cores == 0 || threads <= host.cores) continue;
    return fmt::format(
        "host {}: {} of {} compute on {}: cores are shared, and ranks wait for each other",
        host.name, counted(ranks, "rank"), counted(spec.cluster.device.threads, "thread"),
        counted(host.cores, "core"));
  }
  return "";
}

std::string disk_warning(const actors::RunSpec& spec, const Placement& placement,
                         std::int64_t free_bytes) {
  // A checkpoint has the weights and two moments in float32. Counted are the kept ones, the one
  // being written, and step 0 if it is saved.
  const std::int64_t each = placement.parameters * 3 * 4;
  const std::int64_t first = spec.checkpoint.initial ? 1 : 0;
  const bool several = spec.checkpoint.interval > 0;
  const std::int64_t count =
      (several ? spec.checkpoint.keep + spec.checkpoint.keep_best + 1 : 1) + first;
  // Those of a run that is resumed make room for its later ones.
  const auto own = stages::own_checkpoints(
      std::filesystem::path(actors::checkpoint_path(spec, 0)).parent_path());
  const std::int64_t room = free_bytes + each * std::ssize(own);
  if (each * count <= room) return "";
  const std::string has =
      fmt::format("{} has room for only {}", spec.dir, bytes_text(std::max<std::int64_t>(room, 0)));
  if (count == 1)
    return fmt::format("a checkpoint takes {}, but {}; free some space", bytes_text(each), has);
  // The last good one stays until the next is complete.
  const std::int64_t fewest = (several ? 2 + spec.checkpoint.keep_best : 1) + first;
  const std::string all = fmt::format("{} of {} take {}", counted(count, "checkpoint"),
                                      bytes_text(each), bytes_text(each * count));
  if (each * fewest <= room)
    return fmt::format(
        "{}, but {}: older ones make room, and fewer than checkpoint.keep = {} are "
        "kept",
        all, has, spec.checkpoint.keep);
  return fmt::format("{}, and {} of them are needed to save a second time, but {}; free some space",
                     all, fewest, has);
}

}  // namespace troupe::launch
