#pragma once

#include <cstdint>
#include <vector>

namespace troupe::schedules {

/// The sizes of a run of a decoder on which the time of its step depends, without its schedule. A
/// value.
struct Work {
  // The model.
  std::int64_t hidden = 0;
  std::int64_t feed_forward = 0;  ///< of layers without experts
  std::int64_t experts = 0;       ///< of a layer that has some
  std::int64_t chosen_experts = 0;
  std::int64_t expert_width = 0;
  std::int64_t routed_layers = 0;  ///< those with experts, which are spread evenly over the others
  std::int64_t heads = 0;          ///< of queries
  std::int64_t kv_heads = 0;       ///< of keys and values
  std::int64_t head_width = 0;
  std::int64_t layers = 0;
  std::int64_t vocabulary = 0;
  int gates = 1;  ///< 2: the activation reads two products
  bool hidden_dropout = false;
  bool attention_dropout = false;
  bool tied = false;      ///< the head's matrix is the embedding's
  int element_bytes = 4;  ///< of computation: 2 or 4

  // The batch.
  std::int64_t micro = 1;
  std::int64_t seq_len = 1;
  int microbatches = 1;  ///< of a replica in a step

  // The mesh.
  int tp = 1, pp = 1, dp = 1;
  int ep = 1;                  ///< replicas that share the experts out
  bool whole_experts = false;  ///< on every shard, for its own tokens; else shards divide each
  /// A stage's shards and replicas.
  struct Width {
    int tp = 1, dp = 1;
  };
  /// By stage, if these differ; then `dp` are those of the stage that has most, whose microbatches
  /// `micro` counts.
  std::vector<Width> widths{};
  int apart = 0;  ///< ranks from one replica of the stage to the next one; 0: tp * pp
  bool sequence_parallel = false;
  /// Whether a rank updates its weights, and runs the first forwards of the next step, before it
  /// knows the norm of the whole gradient (Barrier::ahead).
  bool updates_ahead = false;

  enum class Recompute { none, selective, output, full };
  Recompute recompute = Recompute::none;
  /// With `full`: layers of a chunk that are computed again, at most; 0: all.
  int recomputed_layers = 0;

  // What replicas divide, and how they add gradients.
  enum class Division { none, optim, optim_grads, optim_grads_params };
  Division division = Division::none;
  int instances = 1;  ///< groups of replicas, each of which divides among its members
  bool reduces_every_microbatch = false;
  bool overlaps_reductions = true;
  bool overlaps_gathers = true;  ///< those of updated weights
  bool reshards = true;          ///< divided weights are gathered for backwards again
  int gradient_bytes = 4;

  std::int64_t tokens() const { return micro * seq_len; }
  int devices() const;
  /// The work of a run all of whose stages are as this one, which is what a rank of it has.
  Work of_stage(int stage) const;
  int ranks_apart() const { return apart > 0 ? apart : tp * pp; }
  std::int64_t tokens_of_step() const { return tokens() * microbatches * dp; }
  /// The share of the layers that have experts.
  double routed() const {
    return layers > 0 ? static_cast<double>(routed_layers) / static_cast<double>(layers) : 0;
  }
  /// Elements of a layer's matrices, without norms and biases, on average; of experts those that
  /// one replica holds, and those that its shards hold whole for each of them.
  double parameters_of_layer() const {
    return parameters_with((whole_experts ? tp : 1) * static_cast<double>(experts) / ep);
  }
  /// Elements that compute one token.
  double active_parameters_of_layer() const {
    return parameters_with(static_cast<double>(chosen_experts));
  }
  double parameters_of_vocabulary() const {
    return static_cast<double>(hidden) * static_cast<double>(vocabulary);
  }

 private:
  double parameters_with(double held_experts) const {
    const double h = static_cast<double>(hidden), k = static_cast<double>(head_width);
    const double matrices = 2 * h * k * static_cast<double>(heads + kv_heads);
    const double dense = (gates + 1) * h * static_cast<double>(feed_forward);
    if (routed_layers == 0) return matrices + dense;
    const double mixture = h * static_cast<double>(experts) +
                           held_experts * (gates + 1) * h * static_cast<double>(expert_width);
    return matrices + (1 - routed()) * dense + routed() * mixture;
  }
};

/// The FLOP of training on one token: 3 * (2PL + 4sakL + 2Vh), P a layer's matrices, of experts
/// those that are chosen; attention counts whole, and the table of the embedding, which multiplies
/// nothing, does not.
double model_flop_per_token(const Work& work);
/// The FLOP that are executed for it: what the backward computes again counts, too.
double executed_flop_per_token(const Work& work);

}  // namespace troupe::schedules
