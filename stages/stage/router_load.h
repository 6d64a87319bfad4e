#pragma once

#include <vector>

namespace troupe::stages {

/// What the router of one layer has done in a step: this replica's parts of means over all
/// microbatches of the step, which the replicas add up. All shards of a stage have the same.
struct RouterLoad {
  int layer = 0;
  /// By expert: the tokens that chose it, divided by the tokens. The sum is experts per token.
  std::vector<float> load{};
  float entropy = 0;  ///< of a token's probabilities, in nats
  float balance = 0;  ///< experts * sum_e load_e * (mean probability of e)
  float z = 0;        ///< the mean square of log(sum_e exp(logit_e))
};

}  // namespace troupe::stages
