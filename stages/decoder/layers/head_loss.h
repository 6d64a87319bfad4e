#pragma once

#include <memory>
#include <span>

#include "stages/decoder/layers/arena.h"
#include "stages/decoder/layers/head_parts.h"
#include "stages/decoder/layers/layer_shape.h"
#include "stages/decoder/layers/norm.h"
#include "stages/decoder/layers/packed_copies.h"
#include "stages/decoder/layers/streams.h"
#include "tensor/device/ops.h"
#include "tensor/parallel/parallel_linear.h"
#include "tensor/parallel/vocab_parallel_cross_entropy.h"

namespace troupe::stages {

/// The head's parameters or their gradients, float32.
struct HeadParameters {
  NormParameters norm;
  tensor::Tensor projection;  // [O, C]  lm_head, or the tied embedding; score of a value head
  tensor::Tensor bias;        // [O]     of a value head; empty: none
};

struct HeadWeights {
  HeadParameters master;
  void* packed = nullptr;  // of the projection
};

/// What an op writes beside that for which it is called once more.
struct UnreadLoss {
  tensor::Tensor loss;  // one f64
  tensor::Tensor sums;  // [3 R] f32  of several shards
};

/// Scratch memory. R: rows of HeadParts, B: its block.
struct HeadScratch {
  // Of forwards. The targets, and the sums of several shards, serve where no slot keeps them.
  tensor::Tensor targets;            // [T]     int32
  tensor::Tensor logits;             // [T, O]  f32, in parts [R, O]
  tensor::CrossEntropyScratch loss;  //         of several shards
  GatheredTokens forward, backward;
  tensor::Tensor gathered_dx;  // [T, C]  act  a part of a sum; empty without sequence parallelism
  /// A copy of capped logits that several shards' loss overwrites before their gradient needs them.
  tensor::Tensor capped;  // [T, O]  f32, in parts [R, O]
  // In parts alone: of forwards, then of weight gradients. The logits lie in their gradient if that
  // is float32 and they have no cap.
  tensor::Tensor losses;    // [T]     f64
  tensor::Tensor gradient;  // [R, O]  act  of the logits
  UnreadLoss unread;
  tensor::Tensor block_gradient;  // [B, O]  act  of the logits
  tensor::Tensor block_logits;    // [R, O]  f32
  tensor::Tensor capped_again;    // [R, O]  f32
  UnreadLoss unread_again;
};

/// What a forward keeps for one microbatch. I marks what the input gradient reads, W what the
/// weight gradient reads.
struct HeadActivations {
  tensor::Tensor x;           // [S, C]  act  I    output of the last decoder layer
  NormStatistics statistics;  //     I
  tensor::Tensor norm;        // [S, C]  act  W    norm(x)
  tensor::Tensor dlogits;     // [T, O]  act  I W  empty in evaluation
  tensor::Tensor logits;      // [T, O]  f32       dlogits itself in float32 without a cap, else
                              //                   scratch
  HeadScratch scratch;
  tensor::Tensor targets;            // [T]  int32   W in parts, else scratch
  tensor::CrossEntropyScratch loss;  //              W in parts, else scratch
  float scale = 1;                   //              of the loss's gradients
  // In parts there is no dlogits, and logits are there only if the caller of evaluate() wants them.
  tensor::Tensor dx;  // [T, C]  act  I   empty in evaluation
};

/// What I keeps for W beyond HeadActivations.
struct HeadDeferred {
  tensor::Tensor dx;     // [S, C]  act  also the last decoder layer's dy, until its W
  NormParameters dnorm;  //              this microbatch's gradients
};

/// Final norm, projection to logits, their scale and soft cap, if the kind has them, and
/// cross-entropy. One object per stage. With several shards
/// the vocabulary is divided among them; collectives stand apart as those of DecoderBlock do. A
/// value head has no loss, and no backward: it is only evaluated, without targets.
///
/// O is a shard's outputs: V, or 1 of a value head, whose one row every shard has and multiplies
/// with all tokens, so that each has all values.
///
/// Where the logits of all rows would take too much memory (HeadParts), they are computed in parts
/// and lost. No bit changes where a row's product has the same bits among any number of rows: with
/// oneDNN on a processor with AVX-512.
class HeadLoss {
 public:
  HeadLoss(const LayerSpec& spec, tensor::Device& device, const Streams& streams);

  bool is_in_parts() const { return parts_.are_divided; }
  void* lay_out_packed(Arena& arena) const;
  /// The gathered tokens are the caller's.
  HeadScratch lay_out_scratch(Arena& arena) const;
  void lay_out_backward_scratch(Arena& arena, HeadScratch& scratch) const;
  /// Size of the scratch memory of the products, which the stage sets before the first computation.
  tensor::ScratchBytes product_scratch_bytes() const;
  void set_product_scratch(const tensor::Scratch& scratch) const;
  /// Takes memory for all activations but x, which is the caller's; so does lay_out_evaluation().
  HeadActivations lay_out_activations(Arena& arena, const HeadScratch& scratch) const;
  HeadActivations lay_out_evaluation(Arena& arena, const HeadScratch& scratch) const;
  HeadDeferred lay_out_deferred(Arena& arena) const;
  /// Lets what is laid out be of a microbatch of `tokens` tokens.
  void use_tokens(std::int64_t tokens, HeadActivations& kept) const;
  void use_tokens(std::int64_t tokens, HeadDeferred& deferred) const;

  void pack(tensor::Stream& stream, const HeadWeights& weights) const;
  PackedCopy packed_copy(const HeadWeights& weights) const {
    return {weights.master.projection, projection_->packed_copy(weights.packed)};
  }
  void forward_norm(const HeadWeights& weights, const HeadActivations& kept) const;
  std::unique_ptr<tensor::Work> gather_input(const HeadActivations& kept) const;
  /// Fills kept.logits from kept.norm.
  void forward(const HeadWeights& weights, const HeadActivations& kept) const;
  // The loss takes the next three functions before loss() if there are several shards. targets: T
  // tokens in host memory, valid until the call has run.
  std::unique_ptr<tensor::Work> reduce_max(const HeadActivations& kept) const;
  /// Replaces kept.logits by exponentials.
  void local_sums(const HeadWeights& weights, std::span<const std::int32_t> targets,
                  const HeadActivations& kept) const;
  std::unique_ptr<tensor::Work> reduce_sums(const HeadActivations& kept) const;
  /// sum (float64, one element) = the sum of the tokens' losses, on shard 0; 0 on others. Fills
  /// kept.dlogits or kept.dx, times kept.scale, unless they are empty. token_losses: each token's
  /// loss, or empty.
  void loss(const HeadWeights& weights, std::span<const std::int32_t> targets,
            const HeadActivations& kept, const tensor::Tensor& sum,
            const tensor::Tensor& token_losses) const;

  /// Fills deferred.dx with the gradient of kept.norm, or a part of the sum that is.
  void input_gradient(const HeadWeights& weights, const HeadActivations& kept,
                      const HeadDeferred& deferred) const;
  std::unique_ptr<tensor::Work> reduce_gradient(const HeadActivations& kept,
                                                const HeadDeferred& deferred) const;
  /// Makes deferred.dx the gradient of kept.x.
  void input_gradient_norm(const HeadWeights& weights, const HeadActivations& kept,
                           const HeadDeferred& deferred) const;

  std::unique_ptr<tensor::Work> gather_input_again(const HeadActivations& kept) const;
  void weight_gradient(const HeadWeights& weights, const HeadActivations& kept,
                       const HeadParameters& gradients, tensor::Gradient which) const;
  void weight_gradient_norm(const HeadDeferred& deferred, const HeadParameters& gradients,
                            tensor::Gradient which) const;

 private:
  void forward_in_parts(const HeadWeights& weights, const HeadActivations& kept) const;
  void sums_in_parts(const HeadWeights& weights, const HeadActivations& kept) const;
  void loss_in_parts(const HeadWeights& weights, const HeadActivations& kept,
                     const tensor::Tensor& sum, const tensor::Tensor& token_losses) const;
  void weight_gradient_in_parts(const HeadWeights& weights, const HeadActivations& kept,
                                const HeadParameters& gradients, tensor::Gradient which) const;
  /// The losses of a part's tokens, and the gradient of its logits unless that is empty.
  void loss_of_part(tensor::Stream& stream, const HeadActivations& kept, const RowRange& part,
                    const tensor::Tensor& logits, const tensor::Tensor& capped,
                    const tensor::Tensor& gradient, const tensor::Tensor& token_losses,
                    const UnreadLoss& unread) const;
  /// Whether the gradient of the logits needs them as they were capped, in memory of their own.
  bool keeps_logits() const { return cap_ != 0; }
  /// Room for a copy of `rows` capped logits where the loss overwrites them; else empty.
  tensor::Tensor lay_out_capped(Arena& arena, std::int64_t rows) const;
  /// Makes logits of what the projection gave.
  void cap(tensor::Stream& stream, const tensor::Tensor& logits) const;
  /// Copies capped logits before the shards' loss overwrites them, if that is needed.
  void keep_capped(tensor::Stream& stream, const tensor::Tensor& logits,
                   const tensor::Tensor& copy) const;
  /// Makes the gradient of the logits, which has their scale already, that of the projection.
  void cap_gradient(tensor::Stream& stream, const tensor::Tensor& capped,
                    const tensor::Tensor& gradient) const;
  /// By what the gradient of the loss is multiplied.
  float gradient_scale(const HeadActivations& kept) const { return kept.scale * scale_; }
  tensor::Tensor logits_of(const HeadActivations& kept, const RowRange& part) const;
  /// The maxima and sums of a part's rows; those of a part lie together.
  tensor::CrossEntropyScratch sums_of(const HeadActivations& kept, const RowRange& part) const;
  UnreadLoss lay_out_unread(Arena& arena) const;
  tensor::CrossEntropyScratch lay_out_sums(Arena& arena) const;

  LayerShape shape_;
  std::int64_t outputs_;  ///< O
  float scale_, cap_;     ///< of logits; 1 and 0 of a value head
  HeadParts parts_;
  tensor::TensorParallel parallel_;
  tensor::Ops& ops_;
  const Streams& streams_;
  Norm norm_;
  std::unique_ptr<tensor::ColumnParallelLinear> projection_;
  /// Another projection by the same weights, whose forwards are on the backward's stream and
  /// scratch, and whose input gradients on the forward's; null unless the head is in parts.
  std::unique_ptr<tensor::ColumnParallelLinear> again_;
  std::unique_ptr<tensor::VocabParallelCrossEntropy> loss_;  ///< null of a value head
};

}  // namespace troupe::stages
