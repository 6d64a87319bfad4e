#include "actors/protocol/aggregate_votes.h"

#include <cmath>

namespace troupe::actors {
namespace {

std::string place(int replica, std::size_t stage) {
  return "on stage " + std::to_string(stage) + " of replica " + std::to_string(replica);
}

}  // namespace

ReplicaPrepared aggregate_votes(int replica, const std::vector<Prepared>& votes,
                                const std::vector<Ready>& ready,
                                const std::vector<stages::ParameterInfo>& parameters) {
  ReplicaPrepared sum{.epoch = votes.front().epoch, .step = votes.front().step, .replica = replica};
  std::vector<double> squares(parameters.size(), 0.0);
  for (std::size_t stage = 0; stage < votes.size(); ++stage) {
    const Prepared& vote = votes[stage];
    const auto& owned = ready[stage].parameters;
    sum.loss_sum += to_double(vote.loss_sum);
    if (vote.bad_microbatch >= 0 && sum.not_finite.empty())
      sum.not_finite = "the loss of microbatch " + std::to_string(vote.bad_microbatch) +
                       " is not finite " + place(replica, stage);
    for (std::size_t i = 0; i < owned.size() && i < vote.squared_norms.size(); ++i)
      if (owned[i] < squares.size()) squares[owned[i]] = to_double(vote.squared_norms[i]);
  }
  for (std::size_t stage = 0; stage < votes.size() && sum.not_finite.empty(); ++stage)
    for (const std::uint32_t i : ready[stage].parameters)
      if (i < squares.size() && !std::isfinite(squares[i]) && sum.not_finite.empty())
        sum.not_finite =
            "the gradient of " + parameters[i].name + " is not finite " + place(replica, stage);
  for (const double x : squares) sum.squared_norm += x;
  return sum;
}

}  // namespace troupe::actors
