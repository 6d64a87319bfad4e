#pragma once

#include <array>
#include <memory>

#include "stages/layers/activation.h"
#include "stages/layers/arena.h"
#include "stages/layers/layer_dropout.h"
#include "stages/layers/layer_shape.h"
#include "stages/layers/norm.h"
#include "stages/layers/packed_copies.h"
#include "stages/layers/streams.h"
#include "stages/recompute.h"
#include "tensor/attention.h"
#include "tensor/ops.h"
#include "tensor/parallel/column_parallel_linear.h"
#include "tensor/parallel/row_parallel_linear.h"

namespace troupe::stages {

/// The parameters of a linear layer, or their gradients, in float32.
struct LinearParameters {
  tensor::Tensor weight;  // [out, in]
  tensor::Tensor bias;    // [out]  empty: none
};

/// The parameters of a decoder layer, or their gradients. Parameters that one product computes with
/// are joined. The bias of `o` and `down` is whole on every shard; with sequence parallelism its
/// gradient is a part of a sum over them.
struct BlockParameters {
  NormParameters input_norm;
  LinearParameters qkv;  // [Q, C]  queries, keys, values
  LinearParameters o;    // [C, A]
  NormParameters post_norm;
  LinearParameters gate_up;  // [H, C]  what the activation reads
  LinearParameters down;     // [C, F]
};

/// The matrices of a layer in the packed form of the device's products.
struct PackedBlock {
  void* qkv = nullptr;
  void* o = nullptr;
  void* gate_up = nullptr;
  void* down = nullptr;
};

struct BlockWeights {
  BlockParameters master;
  PackedBlock packed;
};

/// Memory that all layers of a stage share, one after the other. dact and dattn never outlast a
/// node and lie in one memory.
struct BlockScratch {
  GatheredTokens forward, backward;
  tensor::Tensor dact;   // [T, F]  act  gradient of `act`
  tensor::Tensor dattn;  // [T, A]  act  gradient of `attn`
  /// Gradient of `post_norm` or `input_norm`, from the node after it to its own.
  tensor::Tensor dnorm;           // [S, C]  act
  tensor::Tensor gathered_dnorm;  // [T, C]  act  a part of a sum; only with sequence parallelism
  /// Gradient of a branch's output before its dropout, within a node. Only with hidden dropout.
  tensor::Tensor dropped;  // [S, C]  act
};

/// What a forward keeps for one microbatch. I marks what the input gradient reads, W what the
/// weight gradient reads.
struct BlockActivations {
  tensor::Tensor x;               // [S, C]   act  I   the layer's input; for a chunk's first layer
                                  //                   without embedding the received buffer
  NormStatistics x_statistics;    //       I
  tensor::Tensor input_norm;      // [S, C]   act  W   norm(x)
  tensor::Tensor qkv;             // [T, Q]   act      before rotation; in the memory of gate_up
  tensor::Tensor saved;           // Attention's   I   rotated queries, keys; values
  tensor::Tensor lse;             // [T * heads] f32  I
  tensor::Tensor attn;            // [T, A]   act  I W
  tensor::Tensor mid;             // [S, C]   act  I   x + attention; after I the gradient of x
  NormStatistics mid_statistics;  //       I
  tensor::Tensor post_norm;       // [S, C]   act  W   norm(mid)
  tensor::Tensor gate_up;         // [T, H]   act  I W after I its own gradient
  tensor::Tensor act;             // [T, F]   act  W   activation(gate_up)
  BlockScratch scratch;
  BlockDropout dropout;  // of the microbatch; evaluations drop nothing
};

/// Groups of a layer's activations (x apart), to lay out some of them alone.
struct ActivationGroups {
  bool core = false;     ///< lse, attn
  bool outputs = false;  ///< input_norm, post_norm, act
  bool sums = false;     ///< mid; qkv and gate_up
  bool inputs = false;   ///< saved and the statistics of norms, which I alone reads
};
constexpr ActivationGroups kAllActivations{
    .core = true, .outputs = true, .sums = true, .inputs = true};
/// What a forward does not keep for a backward, which computes it again.
ActivationGroups discarded_by(Recompute::Mode mode);
ActivationGroups kept_by(Recompute::Mode mode);
/// Lets the activations that lie in `memory` lie there, with its scratch; the others stay.
void move_activations(const BlockActivations& memory, BlockActivations& activations);

/// What I keeps for W beyond BlockActivations.
struct BlockDeferred {
  tensor::Tensor dmid;                     // [S, C]  act
  tensor::Tensor dqkv;                     // [T, Q]  act
  NormParameters dinput_norm, dpost_norm;  // this microbatch's gradients
};

/// The two parts of a layer that begin with a column-parallel product and end with a row-parallel
/// one.
enum class Branch { attention, feed_forward };

/// The decoder layer of a model's kind, before the next layer's norm:
///   mid = x + dropout(Wo attention(Wqkv norm(x)))
///   y   = mid + dropout(Wdown activation(Wgate_up norm(mid)))
/// where a kind with biases adds one to each product. One object serves every layer of a stage;
/// what belongs to a layer or a microbatch is passed in. With several shards the products are
/// divided among them. The collectives between products are functions of their own, which return
/// null if a collective is not needed; the functions that read what it fills are called after it is
/// done.
class DecoderBlock {
 public:
  DecoderBlock(const LayerSpec& spec, tensor::Device& device, const Streams& streams);

  PackedBlock lay_out_packed(Arena& arena) const;
  /// Memory of forwards and evaluations, and of backwards.
  GatheredTokens lay_out_gathered(Arena& arena) const;
  void lay_out_backward_scratch(Arena& arena, BlockScratch& out) const;
  /// Scratch memory of the products. All layers use one memory in turn.
  tensor::ScratchBytes product_scratch_bytes() const;
  void set_product_scratch(const tensor::Scratch& scratch) const;
  /// Scratch memory of attention, which nothing else uses.
  tensor::ScratchBytes attention_scratch_bytes() const;
  void set_attention_scratch(const tensor::Scratch& scratch) const;
  /// Takes memory for the x of a layer that owns its input.
  tensor::Tensor lay_out_input(Arena& arena) const;
  /// Takes memory for one of `parts` equal parts of an x, flat.
  tensor::Tensor lay_out_input_part(Arena& arena, int parts) const;
  /// Takes memory for the bounds of the documents of a microbatch; none if it has no documents.
  tensor::Tensor lay_out_documents(Arena& arena) const;
  /// Takes memory for activations, never for x, because whether a layer owns its input depends on
  /// the chunk.
  BlockActivations lay_out_activations(Arena& arena, const BlockScratch& scratch,
                                       const ActivationGroups& groups = kAllActivations) const;
  BlockDeferred lay_out_deferred(Arena& arena) const;
  /// The most tokens of a microbatch, for which memory is laid out.
  std::int64_t max_tokens() const { return shape_.T; }
  /// Lets what is laid out be of a microbatch of fewer tokens, or of as many as there is room for.
  void use_tokens(std::int64_t tokens, BlockActivations& kept) const;
  void use_tokens(std::int64_t tokens, BlockDeferred& deferred) const;

  void pack(tensor::Stream& stream, const BlockWeights& weights) const;
  std::array<PackedCopy, 4> packed_copies(const BlockWeights& weights) const;

  // The nodes of a forward: from x over input_norm to mid, and from mid over post_norm to y.
  void forward_input_norm(const BlockWeights& weights, const BlockActivations& kept) const;
  std::unique_ptr<tensor::Work> gather_input(Branch branch, const BlockActivations& kept) const;
  void forward_attention(const BlockWeights& weights, const BlockActivations& kept) const;
  void forward_post_norm(const BlockWeights& weights, const BlockActivations& kept) const;
  /// The part of forward_feed_forward() that fills what is kept.
  void forward_act(const BlockWeights& weights, const BlockActivations& kept) const;
  /// y: [S, C] act; may be the memory of kept.x if no backward call reads that.
  void forward_feed_forward(const BlockWeights& weights, const BlockActivations& kept,
                            const tensor::Tensor& y) const;
  /// Sums what the branch's product left: `y` is the output of the feed-forward, or kept.mid.
  std::unique_ptr<tensor::Work> reduce_output(Branch branch, const BlockActivations& kept,
                                              const tensor::Tensor& y) const;
  /// Adds the bias to a sum of several shards, drops it and adds the residual. forward_post_norm()
  /// does so for attention; a single shard needs no call.
  void finish_feed_forward(const BlockWeights& weights, const BlockActivations& kept,
                           const tensor::Tensor& y) const;

  // What a backward computes again of a forward, from the rest of what that kept, with its bits.
  void recompute_core(const BlockActivations& kept) const;
  void recompute_outputs(Branch branch, const BlockWeights& weights,
                         const BlockActivations& kept) const;

  // The input gradients lead from dy over deferred.dmid to dx; dy and dx are [S, C] act.
  std::unique_ptr<tensor::Work> gather_gradient(Branch branch, const tensor::Tensor& dy,
                                                const BlockActivations& kept) const;
  void input_gradient_feed_forward(const BlockWeights& weights, const tensor::Tensor& dy,
                                   const BlockActivations& kept) const;
  void input_gradient_post_norm(const BlockWeights& weights, const tensor::Tensor& dy,
                                const BlockActivations& kept, const BlockDeferred& deferred) const;
  void input_gradient_attention(const BlockWeights& weights, const BlockActivations& kept,
                                const BlockDeferred& deferred) const;
  /// dx may be kept.mid.
  void input_gradient_input_norm(const BlockWeights& weights, const BlockActivations& kept,
                                 const BlockDeferred& deferred, const tensor::Tensor& dx) const;
  /// Completes the gradient of the branch's norm.
  std::unique_ptr<tensor::Work> reduce_gradient(Branch branch, const BlockActivations& kept) const;

  // The weight gradients write the first gradient of a step and add the later ones. They use what
  // the input gradients prepared with the same dy.
  std::unique_ptr<tensor::Work> gather_input_again(Branch branch,
                                                   const BlockActivations& kept) const;
  void weight_gradient_feed_forward(const tensor::Tensor& dy, const BlockActivations& kept,
                                    const BlockParameters& gradients, tensor::Gradient which) const;
  void weight_gradient_post_norm(const BlockDeferred& deferred, const BlockParameters& gradients,
                                 tensor::Gradient which) const;
  void weight_gradient_attention(const BlockActivations& kept, const BlockDeferred& deferred,
                                 const BlockParameters& gradients, tensor::Gradient which) const;
  void weight_gradient_input_norm(const BlockDeferred& deferred, const BlockParameters& gradients,
                                  tensor::Gradient which) const;

 private:
  tensor::ColumnParallelLinear& first_of(Branch branch) const;
  tensor::RowParallelLinear& last_of(Branch branch) const;
  static const HiddenDropout& dropout_of(Branch branch, const BlockActivations& kept);
  bool fuses_residual(const HiddenDropout& dropout) const;
  void bias_dropout_add(Branch branch, const tensor::Tensor& bias, const BlockActivations& kept,
                        const tensor::Tensor& residual, const tensor::Tensor& y) const;
  const tensor::Tensor& before_dropout(Branch branch, const tensor::Tensor& dy,
                                       const BlockActivations& kept) const;
  const tensor::Tensor& output_gradient(Branch branch, const tensor::Tensor& dy,
                                        const BlockActivations& kept) const;

  LayerShape shape_;
  bool has_documents_;
  bool is_divided_;  ///< among several shards
  bool drops_;       ///< whether there is hidden dropout in training
  tensor::Ops& ops_;
  const Streams& streams_;
  std::unique_ptr<Norm> norm_;
  std::unique_ptr<Activation> activation_;
  std::unique_ptr<tensor::ColumnParallelLinear> qkv_, gate_up_;
  std::unique_ptr<tensor::RowParallelLinear> o_, down_;
  std::unique_ptr<tensor::Attention> attention_;
};

}  // namespace troupe::stages
