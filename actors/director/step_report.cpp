#include "actors/director/step_report.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

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
    edges.at(static_cast<int>(waited.from), vote.rank).wait_s = to_double(waited.wait_s);
}

}  // namespace

StepReport::Measured measured(const RunSpec::Mesh& mesh, const std::vector<Prepared>& votes) {
  StepReport::Measured report;
  Edges edges(report);
  for (const Prepared& vote : votes) {
    const RankPlace place = place_of(mesh, vote.rank);
    const double busy = to_double(vote.busy_s);
    report.stages.push_back({.replica = place.replica,
                             .stage = place.stage,
                             .shard = place.shard,
                             .busy_s = busy,
                             .idle_s = std::max(0.0, to_double(vote.wall_s) - busy),
                             .collective_s = to_double(vote.collective_s),
                             .device_used_bytes = vote.device_used,
                             .device_total_bytes = vote.device_total});
    add_edges(edges, vote);
    for (const Prepared::Collectives& row : vote.collectives)
      report.collectives.push_back({.group = row.group,
                                    .operation = row.operation,
                                    .count = row.count,
                                    .bytes = row.bytes,
                                    .time_s = to_double(row.time_s),
                                    .exposed_s = to_double(row.exposed_s)});
  }
  report.collectives = StepReport::of_groups(report.collectives);
  return report;
}

}  // namespace troupe::actors
