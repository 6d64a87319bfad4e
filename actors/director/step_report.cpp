#include "actors/director/step_report.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace troupe::actors {
namespace {

/// The edges of a report by their ranks: the sender counts bytes, the receiver its waits.
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
  for (std::size_t i = 0; i < std::min(vote.edge_to.size(), vote.edge_bytes.size()); ++i)
    edges.at(vote.rank, static_cast<int>(vote.edge_to[i])).bytes = vote.edge_bytes[i];
  for (std::size_t i = 0; i < std::min(vote.edge_from.size(), vote.edge_wait_s.size()); ++i)
    edges.at(static_cast<int>(vote.edge_from[i]), vote.rank).wait_s =
        to_double(vote.edge_wait_s[i]);
}

}  // namespace

StepReport::Measured measured(int replica, const std::vector<Prepared>& votes) {
  StepReport::Measured report;
  Edges edges(report);
  for (std::size_t stage = 0; stage < votes.size(); ++stage) {
    const Prepared& vote = votes[stage];
    const double busy = to_double(vote.busy_s);
    report.stages.push_back({.replica = replica,
                             .stage = static_cast<int>(stage),
                             .busy_s = busy,
                             .idle_s = std::max(0.0, to_double(vote.wall_s) - busy)});
    add_edges(edges, vote);
  }
  return report;
}

}  // namespace troupe::actors
