#pragma once

#include <memory>
#include <vector>

#include "stages/decoder/layers/arena.h"
#include "stages/decoder/layers/expert_exchange.h"
#include "stages/decoder/layers/packed_copies.h"
#include "stages/decoder/layers/sublayer_tensors.h"
#include "tensor/device/grouped_linear.h"
#include "tensor/device/ops.h"

namespace troupe::stages {

/// The middle of a feed-forward sublayer with experts, from its norm to what is added to the
/// residual stream (arXiv 2401.04088): a router gives each token a probability for each expert, of
/// which the token takes some;
///   y = sum_e weight_e W_out_e swiglu(W_in_e x)
/// over these, in ascending order of e. The router is float32. One object serves every layer of a
/// stage, in training and in inference; letters as in routed_tensors.h.
///
/// Of several shards each has its part of every expert's width and routes all tokens as the others
/// do. Then y, the gradient of x and that of the router are parts of sums over the shards.
///
/// Or each has all experts whole (Sharding::whole_experts), and x and y are of its own tokens,
/// which it routes alone; then the losses of the router and what it tells take a sum over the
/// shards, sum_load(). T stands for N where that is so.
///
/// If replicas share experts out, each has some of them for the tokens of all. Then the functions
/// with collectives take the place of those of one replica; what returns Work fills what the next
/// function reads once it is done, and the group is that of the direction.
class RoutedExperts {
 public:
  /// `like` gives all but the sizes of the products.
  RoutedExperts(const LayerSpec& spec, tensor::Device& device, const tensor::LinearShape& like);

  /// `experts`: where matrices of experts lie.
  PackedSublayer lay_out_packed(Arena& arena, Arena& experts) const;
  void pack(tensor::Stream& stream, const SublayerWeights& weights, LayerPart part) const;
  void add_packed_copies(const SublayerWeights& weights, std::vector<PackedCopy>& copies) const;
  tensor::ScratchBytes scratch_bytes() const;
  void set_scratch(const tensor::Scratch& scratch) const;

  /// Takes memory for activations of these groups, but for `inner`.
  void lay_out(Arena& arena, const ActivationGroups& groups, RoutedActivations& kept) const;
  tensor::Tensor lay_out_inner(Arena& arena) const;
  RoutedScratch lay_out_scratch(Arena& arena) const;
  RoutedScratch lay_out_backward_scratch(Arena& arena) const;
  tensor::Tensor lay_out_logits(Arena& arena) const;
  /// SublayerDeferred::dresults; empty unless rows travel.
  tensor::Tensor lay_out_results_gradient(Arena& arena) const;
  /// Elements of RoutedActivations::load_sum.
  std::int64_t load_size() const { return 2 * shape_.E + 3; }
  /// How many of a microbatch's tokens the shard routes.
  std::int64_t routed_tokens(std::int64_t tokens) const {
    return is_whole_ ? shape_.own_tokens(tokens) : tokens;
  }
  /// Lets what is laid out be of a microbatch of fewer tokens, or of as many as there is room for.
  void use_tokens(std::int64_t all_tokens, RoutedActivations& kept) const;
  void use_tokens(std::int64_t all_tokens, RoutedScratch& scratch) const;

  // A forward of x [T, C]; each function uses what the ones before have filled.
  /// Lets the router choose, and counts its choices.
  void choose(tensor::Stream& stream, const SublayerWeights& weights, const tensor::Tensor& x,
              const RoutedActivations& kept, const RoutedScratch& scratch) const;
  void forward_product(tensor::Stream& stream, const SublayerWeights& weights,
                       const tensor::Tensor& x, const RoutedActivations& kept,
                       const RoutedScratch& scratch) const;
  void forward_hidden(tensor::Stream& stream, const RoutedActivations& kept) const;
  /// y [T, C], to which the residual, if given, is added.
  void forward_output(tensor::Stream& stream, const SublayerWeights& weights,
                      const RoutedActivations& kept, const RoutedScratch& scratch,
                      const tensor::Tensor& y, const tensor::Tensor& residual) const;

  /// Sums what the shards' routers have done, if each has its own tokens, and then adds it up.
  std::unique_ptr<tensor::Work> sum_load(tensor::Stream& stream,
                                         const RoutedActivations& kept) const;
  void add_load(tensor::Stream& stream, const RoutedActivations& kept,
                const RoutedScratch& scratch) const;

  // The same with experts of other replicas, after choose().
  using Work = ExpertExchange::Work;
  using Direction = ExpertExchange::Direction;
  RowCounts make_counts() const;
  void gather_rows(tensor::Stream& stream, const tensor::Tensor& x, const RoutedActivations& kept,
                   const RoutedScratch& scratch) const;
  Work gather_offsets(tensor::Stream& stream, Direction direction,
                      const RoutedActivations& kept) const;
  Work send_weights(tensor::Stream& stream, Direction direction, const RoutedActivations& kept,
                    const RoutedScratch& scratch) const;
  Work send_rows(tensor::Stream& stream, Direction direction, const RoutedActivations& kept,
                 const RoutedScratch& scratch) const;
  void arrange_rows(tensor::Stream& stream, const RoutedActivations& kept,
                    const RoutedScratch& scratch) const;
  void forward_received(tensor::Stream& stream, const SublayerWeights& weights,
                        const RoutedActivations& kept) const;
  void forward_results(tensor::Stream& stream, const SublayerWeights& weights,
                       const RoutedActivations& kept, const RoutedScratch& scratch) const;
  Work return_results(tensor::Stream& stream, Direction direction, const RoutedActivations& kept,
                      const RoutedScratch& scratch) const;
  void sum_results(tensor::Stream& stream, const RoutedActivations& kept,
                   const RoutedScratch& scratch, const tensor::Tensor& y,
                   const tensor::Tensor& residual) const;
  void gather_gradient(tensor::Stream& stream, const tensor::Tensor& dy,
                       const RoutedActivations& kept, const RoutedScratch& scratch) const;
  Work send_gradient(tensor::Stream& stream, Direction direction, const RoutedActivations& kept,
                     const RoutedScratch& scratch) const;
  /// Fills dresults [X, C], the gradient of what the experts gave.
  void received_gradient(tensor::Stream& stream, const SublayerWeights& weights,
                         const RoutedActivations& kept, const RoutedScratch& scratch,
                         const tensor::Tensor& dresults) const;
  Work return_weights_gradient(tensor::Stream& stream, Direction direction,
                               const RoutedActivations& kept, const RoutedScratch& scratch) const;
  Work return_rows_gradient(tensor::Stream& stream, Direction direction,
                            const RoutedActivations& kept, const RoutedScratch& scratch) const;

  // A backward from dy [T, C].
  void hidden_gradient(tensor::Stream& stream, const SublayerWeights& weights,
                       const tensor::Tensor& dy, const RoutedActivations& kept,
                       const RoutedScratch& scratch) const;
  /// The gradient of what the experts read.
  void rows_gradient(tensor::Stream& stream, const SublayerWeights& weights,
                     const RoutedActivations& kept, const RoutedScratch& scratch) const;
  /// Fills dlogits [T, E] f32, the gradient of the router's product.
  void router_gradient(tensor::Stream& stream, const RoutedActivations& kept,
                       const RoutedScratch& scratch, const tensor::Tensor& dlogits) const;
  /// Fills dx [T, C] from both.
  void input_gradient(tensor::Stream& stream, const SublayerWeights& weights,
                      const RoutedActivations& kept, const RoutedScratch& scratch,
                      const tensor::Tensor& dlogits, const tensor::Tensor& dx) const;
  struct WeightCall {
    const tensor::Tensor& x;
    const tensor::Tensor& dy;
    const tensor::Tensor& dlogits;
    const tensor::Tensor& dresults;  ///< if rows travel, in place of dy
    tensor::Gradient which;
  };
  void weight_gradient(tensor::Stream& stream, const WeightCall& call,
                       const RoutedActivations& kept, const RoutedScratch& scratch,
                       const SublayerParameters& gradients) const;

 private:
  /// x, or a copy of it in float32.
  const tensor::Tensor& widened(tensor::Stream& stream, const tensor::Tensor& x,
                                const tensor::Tensor& memory) const;
  void count(tensor::Stream& stream, const RoutedActivations& kept) const;
  tensor::RouterLosses losses(tensor::Stream& stream, const RouterChoice& choice,
                              const RoutedScratch& scratch) const;
  void check_capacity(tensor::Stream& stream, const RouterChoice& choice) const;
  /// What this replica's experts compute: rows of its own tokens, or those that have come.
  struct Rows {
    tensor::Tensor offsets, weights, inner, hidden;
  };
  Rows rows_of(const RoutedActivations& kept) const;

  LayerShape shape_;
  tensor::RouterShape router_shape_;
  bool has_z_loss_;
  bool is_training_;
  bool is_whole_;  ///< each shard has its own tokens
  tensor::TensorParallel parallel_;
  float share_;  ///< of a microbatch in a step's means
  /// By which the gradients of both losses of a microbatch are multiplied; 0: none, as on all
  /// shards but one, because what they give is summed.
  float balance_, z_;
  tensor::Ops& ops_;
  std::unique_ptr<tensor::Linear> router_;
  std::unique_ptr<tensor::GroupedLinear> in_, out_;
  std::unique_ptr<ExpertExchange> exchange_;  ///< null unless replicas share experts out
  std::int64_t capacity_;
  std::unique_ptr<tensor::HostCopies> host_;  ///< null where no capacity is checked
};

}  // namespace troupe::stages
