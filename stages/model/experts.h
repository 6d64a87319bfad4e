#pragma once

#include <cstdint>
#include <vector>

namespace troupe::stages {

/// The mixtures of experts of a model: in the layers that is_routed() names, a router chooses for
/// each token the feed-forward networks that compute it. No token is dropped.
struct Experts {
  std::int64_t count = 0;      ///< of a layer; 0: no layer has experts
  std::int64_t per_token = 0;  ///< those that compute a token
  std::int64_t width = 0;      ///< rows of gate and up of one expert
  /// Whether the weights of the chosen are divided by their sum (norm_topk_prob).
  bool normalizes = true;
  /// By which the load-balancing loss is multiplied: the mean over routed layers of count * sum_e
  /// (chosen rows of e / tokens) * (mean probability of e), over a microbatch; 0: none.
  double aux_loss_coef = 0;
  /// By which the mean square of log(sum_e exp(logit_e)) is multiplied, the mean over routed
  /// layers too (arXiv 2202.08906); 0: none.
  double z_loss_coef = 0;
  /// Most rows of one expert in a microbatch, above which training stops with an error; 0: any.
  std::int64_t capacity = 0;
  std::vector<int> dense_layers{};  ///< layers without experts, whatever sparse_step says
  std::int64_t sparse_step = 1;     ///< the last layer of so many has experts
  bool operator==(const Experts&) const = default;
};

}  // namespace troupe::stages
