#pragma once

#include <memory>

#include "stages/decoder/layers/streams.h"
#include "stages/decoder/layers/sublayer_core.h"
#include "stages/decoder/layers/sublayer_products.h"
#include "tensor/device/ops.h"

namespace troupe::stages {

/// A sublayer of a decoder layer (arXiv 1706.03762, with the norm in front):
///   y = x + dropout(W_out core(W_in norm(x)))
/// where a kind with biases adds one to each product, and an adapter what AdapterProduct
/// says. The form of other kinds (SublayerForm) is
///   y = x + branch_scale * dropout(end_norm(W_out core(W_in norm(x))))
/// of which some leave out norm, which is x then. One object serves every layer of a stage;
/// what belongs to a layer or a microbatch is passed in. With several shards the products are
/// divided among them. The collectives between products are functions of their own, which return
/// null if a collective is not needed; the functions that read what it fills are called after it is
/// done.
class Sublayer {
 public:
  /// `products` outlives it.
  Sublayer(const LayerSpec& spec, tensor::Device& device, const Streams& streams,
           const SublayerProducts& products, std::unique_ptr<SublayerCore> core);

  const SublayerCore& core() const { return *core_; }
  /// Takes memory for activations of these groups, but for x and inner (DecoderBlock).
  void lay_out(Arena& arena, const ActivationGroups& groups, SublayerActivations& kept) const;
  tensor::Tensor lay_out_inner(Arena& arena) const;
  /// Takes memory for what I keeps, but for dx.
  SublayerDeferred lay_out_deferred(Arena& arena) const;
  /// Lets what is laid out be of a microbatch of fewer tokens, or of as many as there is room for.
  void use_tokens(std::int64_t tokens, SublayerActivations& kept) const;
  void use_tokens(std::int64_t tokens, SublayerDeferred& deferred) const;

  // The nodes of a forward.
  void forward_norm(const SublayerCall& call) const;
  std::unique_ptr<tensor::Work> gather_input(const SublayerCall& call) const;
  /// The first product, and parts of the sums that the core reads (sums_heads()).
  void forward_product(const SublayerCall& call) const;
  std::unique_ptr<tensor::Work> reduce_squares(const SublayerCall& call) const;
  /// The core.
  void forward_hidden(const SublayerCall& call) const;
  /// The last product, and of a single shard finish_output().
  void forward_output(const SublayerCall& call) const;
  /// Sums what the last product left, over the shards.
  std::unique_ptr<tensor::Work> reduce_output(const SublayerCall& call) const;
  /// Adds the bias to a sum of several shards, norms it if the form says so, drops it and adds the
  /// residual.
  void finish_output(const SublayerCall& call) const;
  /// The parts of forward_output() and finish_output() that fill what is kept; there is no y.
  void forward_branch(const SublayerCall& call) const;
  void finish_branch(const SublayerCall& call) const;
  /// What forward_output() keeps of a sublayer whose output nobody reads again.
  void forward_kept(const SublayerCall& call) const;

  /// Sums what the shards' routers have done, where each has its own tokens.
  std::unique_ptr<tensor::Work> sum_load(const SublayerCall& call) const;

  // In place of forward_product() to forward_output(), and of core_gradient() and
  // input_gradient(), where rows travel to experts of other replicas. What returns Work is done
  // before the next function but for: send_rows() does not wait for send_weights(), nor
  // return_rows_gradient() and router_gradient() for each other.
  void route_rows(const SublayerCall& call) const;
  std::unique_ptr<tensor::Work> gather_offsets(const SublayerCall& call) const;
  std::unique_ptr<tensor::Work> send_weights(const SublayerCall& call) const;
  std::unique_ptr<tensor::Work> send_rows(const SublayerCall& call) const;
  void compute_received(const SublayerCall& call) const;
  void compute_results(const SublayerCall& call) const;
  std::unique_ptr<tensor::Work> return_results(const SublayerCall& call) const;
  void collect_output(const SublayerCall& call) const;
  void route_gradient(const SublayerCall& call) const;
  std::unique_ptr<tensor::Work> send_gradient(const SublayerCall& call) const;
  void received_gradient(const SublayerCall& call) const;
  std::unique_ptr<tensor::Work> return_weights_gradient(const SublayerCall& call) const;
  std::unique_ptr<tensor::Work> return_rows_gradient(const SublayerCall& call) const;
  void router_gradient(const SublayerCall& call) const;
  void collect_gradient(const SublayerCall& call) const;

  /// What a backward computes again of a forward, from the rest of what that kept, with its bits:
  /// the core or the outputs, not the sums.
  void recompute(const ActivationGroups& discarded, const SublayerCall& call) const;

  // The input gradients lead from dy to dx; both are [S, C] act.
  /// From y to the result of the last product, if that has another gradient (changes_branch()).
  void branch_gradient(const SublayerCall& call) const;
  std::unique_ptr<tensor::Work> gather_gradient(const SublayerCall& call) const;
  /// The gradients of the last product and of the core, or parts of the sums over the shards that
  /// this takes.
  void core_gradient(const SublayerCall& call) const;
  std::unique_ptr<tensor::Work> reduce_dots(const SublayerCall& call) const;
  /// That of the first product, after what is left of the core's.
  void input_gradient(const SublayerCall& call) const;
  /// Completes the gradient of the norm.
  std::unique_ptr<tensor::Work> reduce_gradient(const SublayerCall& call) const;
  void norm_input_gradient(const SublayerCall& call, const tensor::Tensor& dx) const;

  // The weight gradients write the first gradient of a step and add the later ones. They use what
  // the input gradients prepared with the same dy. With adapters they are those of these alone.
  std::unique_ptr<tensor::Work> gather_input_again(const SublayerCall& call) const;
  void weight_gradient(const SublayerCall& call, const SublayerParameters& gradients,
                       tensor::Gradient which) const;
  void norm_weight_gradient(const SublayerCall& call, const SublayerParameters& gradients,
                            tensor::Gradient which) const;
  void end_norm_weight_gradient(const SublayerCall& call, const SublayerParameters& gradients,
                                tensor::Gradient which) const;

 private:
  /// Whether shards have experts whole, each for its own tokens.
  bool keeps_tokens(const SublayerCall& call) const {
    return has_whole_experts_ && call.is_routed();
  }
  /// What the last product writes, and of experts what the first one reads and the last one's
  /// gradient.
  const tensor::Tensor& product_of(const SublayerCall& call) const;
  const tensor::Tensor& routed_input(const SublayerCall& call) const;
  const tensor::Tensor& routed_output_gradient(const SublayerCall& call) const;
  void routed_product(const SublayerCall& call) const;
  void routed_gradient(const SublayerCall& call) const;
  void add_bias(const SublayerCall& call, const tensor::Tensor& residual,
                const tensor::Tensor& y) const;
  void output_product(const SublayerCall& call, const tensor::Tensor& y,
                      const tensor::Tensor& residual) const;
  void adapter_gradient(const SublayerCall& call, const SublayerParameters& gradients,
                        tensor::Gradient which) const;
  bool fuses_residual(const HiddenDropout& dropout) const;
  /// Where the last product's result is: y, unless it is kept for the norm after it.
  const tensor::Tensor& branch_of(const SublayerCall& call) const;
  const tensor::Tensor& before_dropout(const SublayerCall& call) const;
  const tensor::Tensor& own_output_gradient(const SublayerCall& call) const;
  const tensor::Tensor& output_gradient(const SublayerCall& call) const;
  void norm_branch(const SublayerCall& call, const tensor::Tensor& normed) const;

  LayerShape shape_;
  const SublayerForm form_;
  const tensor::TensorParallel parallel_;
  bool is_divided_;  ///< among several shards
  bool has_whole_experts_;
  tensor::Ops& ops_;
  const Streams& streams_;
  std::unique_ptr<SublayerCore> core_;
  const SublayerProducts& products_;
};

}  // namespace troupe::stages
