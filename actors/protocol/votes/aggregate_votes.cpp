#include "actors/protocol/votes/aggregate_votes.h"

#include <cmath>

namespace troupe::actors {
namespace {

/// The place of a rank, for people.
std::string place(const RunSpec::Mesh& mesh, int rank) {
  const RankPlace at = place_of(mesh, rank);
  return "on stage " + std::to_string(at.stage) + " of replica " + std::to_string(at.replica);
}

}  // namespace

ReplicaPrepared aggregate_votes(int replica, const std::vector<Prepared>& votes,
                                const std::vector<Ready>& ready, const RunSpec::Mesh& mesh,
                                const std::vector<stages::ParameterInfo>& parameters) {
  ReplicaPrepared sum{.configuration = votes.front().configuration,
                      .step = votes.front().step,
                      .replica = replica,
                      .targets = votes.front().targets};
  std::vector<double> squares(parameters.size(), 0.0);
  for (std::size_t v = 0; v < votes.size(); ++v) {
    const Prepared& vote = votes[v];
    const auto& owned = ready[v].parameters;
    sum.loss_sum += vote.loss_sum;
    if (vote.bad_microbatch >= 0 && sum.not_finite.empty())
      sum.not_finite = "the loss of microbatch " + std::to_string(vote.bad_microbatch) +
                       " is not finite " + place(mesh, vote.rank);
    if (!vote.bad_gradient.empty() && sum.not_finite.empty()) {
      sum.not_finite = "rank " + std::to_string(vote.rank) + ": " + vote.bad_gradient;
      sum.is_own = true;
    }
    for (std::size_t i = 0; i < owned.size() && i < vote.squared_norms.size(); ++i)
      if (owned[i] < squares.size()) squares[owned[i]] += vote.squared_norms[i];
  }
  for (std::size_t v = 0; v < votes.size() && sum.not_finite.empty(); ++v)
    for (const std::uint32_t i : ready[v].parameters)
      if (i < squares.size() && !std::isfinite(squares[i]) && sum.not_finite.empty())
        sum.not_finite = "the gradient of " + parameters[i].name + " is not finite " +
                         place(mesh, votes[v].rank);
  for (const double x : squares) sum.squared_norm += x;
  return sum;
}

}  // namespace troupe::actors
