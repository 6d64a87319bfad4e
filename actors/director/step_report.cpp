#include "actors/director/step_report.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "stages/model/computation.h"

namespace troupe::actors {
namespace {

/// The edges of a report, found by their two ranks: the sender counts bytes, the receiver its
/// waits.
class Edges {
 public:
  explicit Edges(StepReport::Measured& report) : edges_(report.edges) {}
  StepReport::EdgeBytes& at(int from, int to) {
    const auto [known, is_new] = index_.try_emplace({from, to}, edges_.size());
    if (is_new) edges_.push_back({.from = from, .to = to});
    return edges_[known->second];
  }

 private:
  std::vector<StepReport::EdgeBytes>& edges_;
  std::map<std::pair<int, int>, std::size_t> index_;
};

void add_edges(Edges& edges, const Prepared& vote) {
  for (const auto& sent : vote.sent)
    edges.at(vote.rank, static_cast<int>(sent.to)).bytes = sent.bytes;
  for (const auto& waited : vote.waited)
    edges.at(static_cast<int>(waited.from), vote.rank).wait_s = waited.wait_s;
}

void add_sources(std::vector<StepReport::SourceSum>& sums, const Prepared& vote) {
  sums.resize(std::max(sums.size(), vote.sources.size()));
  for (std::size_t i = 0; i < vote.sources.size(); ++i) {
    sums[i].loss_sum += vote.sources[i].loss_sum;
    sums[i].targets += vote.sources[i].targets;
  }
}

}  // namespace

StepReport::Measured measured(const RunSpec::Mesh& mesh, const std::vector<Prepared>& votes) {
  StepReport::Measured report;
  Edges edges(report);
  for (const Prepared& vote : votes) {
    const RankPlace place = place_of(mesh, vote.rank);
    report.stages.push_back({.replica = place.replica,
                             .stage = place.stage,
                             .shard = place.shard,
                             .busy_s = vote.busy_s,
                             .idle_s = std::max(0.0, vote.wall_s - vote.busy_s),
                             .collective_s = vote.collective_s,
                             .device_used_bytes = vote.device_used,
                             .device_total_bytes = vote.device_total,
                             .host_bytes = vote.host_bytes,
                             .network_bytes = vote.network_bytes,
                             .groups = vote.groups});
    add_edges(edges, vote);
    report.collectives.insert(report.collectives.end(), vote.collectives.begin(),
                              vote.collectives.end());
    add_sources(report.sources, vote);
    report.routers.insert(report.routers.end(), vote.routers.begin(), vote.routers.end());
  }
  report.collectives = StepReport::of_groups(report.collectives);
  return report;
}

std::vector<StepReport::SourceLoss> losses_of(
    const std::vector<RunSpec::Data::Source>& sources,
    const std::vector<std::shared_ptr<const StepReport::Measured>>& replicas) {
  std::vector<StepReport::SourceLoss> losses;
  for (std::size_t i = 0; i < sources.size() && sources.size() > 1; ++i) {
    StepReport::SourceSum sum;
    for (const auto& replica : replicas) {
      if (!replica || i >= replica->sources.size()) continue;
      sum.loss_sum += replica->sources[i].loss_sum;
      sum.targets += replica->sources[i].targets;
    }
    losses.push_back({.name = sources[i].name,
                      .loss = sum.loss_sum / static_cast<double>(sum.targets),
                      .tokens = sum.targets});
  }
  return losses;
}

std::vector<StepReport::Router> routers_of(
    const std::vector<std::shared_ptr<const StepReport::Measured>>& replicas) {
  std::map<int, StepReport::Router> by_layer;
  for (const auto& replica : replicas) {
    if (!replica) continue;
    for (const StepReport::Router& part : replica->routers) {
      StepReport::Router& sum = by_layer[part.layer];
      sum.layer = part.layer;
      sum.load.resize(std::max(sum.load.size(), part.load.size()));
      for (std::size_t e = 0; e < part.load.size(); ++e) sum.load[e] += part.load[e];
      sum.entropy += part.entropy;
      sum.balance += part.balance;
      sum.z += part.z;
    }
  }
  std::vector<StepReport::Router> routers;
  for (auto& [layer, router] : by_layer) routers.push_back(std::move(router));
  return routers;
}

double aux_loss_of(const stages::ModelConfig& model,
                   const std::vector<StepReport::Router>& routers) {
  const std::int64_t layers = stages::num_routed_layers(model);
  double sum = 0;
  for (const StepReport::Router& router : routers)
    sum += model.experts.aux_loss_coef * router.balance + model.experts.z_loss_coef * router.z;
  return layers > 0 ? sum / static_cast<double>(layers) : 0;
}

}  // namespace troupe::actors
