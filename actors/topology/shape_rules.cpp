#include "actors/topology/shape_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "actors/topology/schedule_kinds.h"
#include "stages/model/sharding.h"

namespace troupe::actors {

bool shares_evenly(const RunSpec::Batch& batch, std::int64_t dp) {
  return batch.global % (batch.micro * dp) == 0;
}

std::string fault_of_shards(const RunSpec& spec, bool sequence_parallel, int tp) {
  const auto fault_of = [&](int shards) {
    return stages::check_sharding(spec.model, shards, spec.mesh.etp == 1);
  };
  if (std::string fault = fault_of(tp); !fault.empty()) return fault;
  const bool pads = spec.batch.documents == stages::Documents::packed;  // to a multiple of tp
  if (!sequence_parallel || pads || spec.batch.seq_len % tp == 0) return "";
  int nearest = tp;
  while (spec.batch.seq_len % nearest != 0 || !fault_of(nearest).empty()) --nearest;
  return "with sequence parallelism batch.seq_len = " + std::to_string(spec.batch.seq_len) +
         " must be divisible by tp = " + std::to_string(tp) +
         "; nearest: tp = " + std::to_string(nearest);
}

std::string fault_of_experts(const RunSpec& spec, const RunSpec::Mesh& mesh) {
  const int dp = mesh.dp, ep = mesh.ep;
  if (mesh.etp == 1 && mesh.tp > 1 && !mesh.sequence_parallel)
    return "etp = 1 needs tokens that are divided among the shards; take mesh.sequence_parallel = "
           "true, or leave out etp";
  if (mesh.etp > 1 && mesh.etp != mesh.tp)
    return fmt::format(
        "etp = {} is neither 1, for experts that are whole on each shard, nor tp = {}; nearest: "
        "etp = {}",
        mesh.etp, mesh.tp, mesh.etp > mesh.tp ? mesh.tp : 1);
  if (ep == 1) return "";
  if (!mesh.is_even())
    return fmt::format("ep = {} needs stages of equal dp and tp; take ep = 1", ep);
  if (spec.model.adapter)
    return fmt::format("ep = {} with an adapter, whose base is whole on each replica; take ep = 1",
                       ep);
  const int instances = spec.data_parallel.instances;  // each has all experts
  const int replicas = dp % instances == 0 ? dp / instances : dp;
  const auto is_possible = [&](int members) {
    return replicas % members == 0 && stages::shares_experts(spec.model, members);
  };
  if (is_possible(ep)) return "";
  int nearest = std::min(ep, replicas);
  while (!is_possible(nearest)) --nearest;
  return fmt::format(
      "ep = {} must divide the {} experts of a layer (model.num_experts) and the {} replicas "
      "({}); nearest: ep = {}",
      ep, spec.model.experts.count, replicas,
      replicas == dp ? "dp" : "dp / data_parallel.num_optimizer_instances", nearest);
}

std::string fault_of_widths(const RunSpec::Mesh& mesh, const RunSpec::Schedule& schedule) {
  if (mesh.is_even()) return "";
  const auto stage = [&](int i) {
    return fmt::format("stage {} has dp = {}", i, mesh.width(i).dp);
  };
  for (int i = 0; i < mesh.pp; ++i) {
    const int dp = mesh.width(i).dp, next = mesh.width((i + 1) % mesh.pp).dp;
    if (i + 1 < mesh.pp && dp % next != 0 && next % dp != 0)
      return fmt::format(
          "{} and {}, of which neither divides the other; nearest: dp = {} for stage {}", stage(i),
          stage(i + 1), std::gcd(dp, next) == 1 ? dp : std::gcd(dp, next), i + 1);
    if (mesh.dp % dp != 0)
      return fmt::format(
          "{}, which does not divide the {} replicas of the stage that has most; "
          "nearest: dp = {}",
          stage(i), mesh.dp, std::gcd(mesh.dp, dp));
  }
  if (copies_of(schedule) > 1)
    if (std::string fault = fault_of_mirrors(mesh); !fault.empty())
      return fmt::format("schedule {}: {}", schedule.kind, fault);
  return "";
}

std::string fault_of_mirrors(const RunSpec::Mesh& mesh) {
  for (int stage = 0, mirror = mesh.pp - 1; stage < mirror; ++stage, --mirror) {
    const auto [dp, tp] = mesh.width(stage);
    const auto [mirror_dp, mirror_tp] = mesh.width(mirror);
    if (mesh.width(stage) != mesh.width(mirror))
      return fmt::format(
          "stages {} and {} keep copies of the same layers, so they must have the same dp and tp, "
          "but have dp = {}, tp = {} and dp = {}, tp = {}",
          stage, mirror, dp, tp, mirror_dp, mirror_tp);
  }
  return "";
}

int copies_of(const RunSpec::Schedule& schedule) {
  const auto* generator = generator_of(schedule.kind);
  return generator ? generator->copies : 1;
}

std::int64_t most_chunks(const RunSpec& spec, const RunSpec::Schedule& schedule) {
  return spec.model.num_hidden_layers * copies_of(schedule);
}

std::string fault_of_schedule(const RunSpec::Batch& batch, const RunSpec::Mesh& mesh,
                              const RunSpec::Schedule& schedule) {
  const auto* generator = generator_of(schedule.kind);
  if (!generator) return "";
  return generator->check(
      {.stages = mesh.pp, .chunks = schedule.chunks, .microbatches = batch.microbatches(mesh.dp)});
}

}  // namespace troupe::actors
