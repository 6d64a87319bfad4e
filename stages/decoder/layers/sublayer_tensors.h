#pragma once

#include "stages/decoder/layers/adapter_product.h"
#include "stages/decoder/layers/layer_dropout.h"
#include "stages/decoder/layers/layer_shape.h"
#include "stages/decoder/layers/norm.h"
#include "stages/decoder/layers/routed_tensors.h"
#include "stages/stage/recompute.h"
#include "tensor/device/attention.h"

namespace troupe::stages {

/// The two sublayers of a decoder layer, in the order of a forward.
enum class Branch { attention, feed_forward };

/// One value for each of them.
template <typename T>
struct BranchPair {
  T attention{};
  T feed_forward{};
  T& operator[](Branch branch) { return branch == Branch::attention ? attention : feed_forward; }
  const T& operator[](Branch branch) const {
    return branch == Branch::attention ? attention : feed_forward;
  }
};

/// The parameters of a linear layer, or their gradients, in float32.
struct LinearParameters {
  tensor::Tensor weight;  // [out, in]
  tensor::Tensor bias;    // [out]  empty: none
};

/// The parameters of a sublayer, or their gradients. Parameters that one product computes with are
/// joined. The bias of `out` is whole on every shard; with sequence parallelism its gradient is a
/// part of a sum over them.
struct SublayerParameters {
  NormParameters norm;
  LinearParameters in;      // [I, C]  queries, keys, values; what the activation reads
  LinearParameters out;     // [C, O]
  NormParameters end_norm;  // of what `out` gives; empty: none
  /// The weights of attention's norms of queries and keys: [D] for each head alike, or [heads * D]
  /// for all that the shard has; empty: none.
  tensor::Tensor query_norm, key_norm;
  /// [E, C] of a feed-forward with experts, whose `in` is those of all its experts, one after the
  /// other: [E * 2m, C], and `out` [E * C, m].
  tensor::Tensor router;
  AdapterParameters in_adapter, out_adapter;  // of both products; empty: none
};

/// The matrices of a sublayer in the packed form of the device's products.
struct PackedSublayer {
  void* in = nullptr;
  void* out = nullptr;
  void* router = nullptr;  ///< of a feed-forward with experts
  PackedAdapter in_adapter, out_adapter;
};

/// Parts of a layer whose weights come at different times where replicas divide them and share
/// experts out.
enum class LayerPart { all, experts, others };

struct SublayerWeights {
  SublayerParameters master;
  PackedSublayer packed;
  /// Number of the layer's attention among the model's different ones (attentions_of()).
  std::size_t attention = 0;
};

/// Memory that all sublayers of a stage share, one after the other.
struct SublayerScratch {
  GatheredTokens forward, backward;
  RoutedScratch routed_forward, routed_backward;
  tensor::Tensor dhidden;  // [T, max O]  act  gradient of `hidden`, within a node
  /// Gradient of `norm`, from the node of the products to that of the norm.
  tensor::Tensor dnorm;           // [S, C]  act
  tensor::Tensor gathered_dnorm;  // [T, C]  act  a part of a sum; only with sequence parallelism
  /// Gradient of a sublayer's output before its dropout, or of the embedding before its scale,
  /// within a node. Only where there is one of these.
  tensor::Tensor dropped;  // [S, C]  act
  /// What the gradients of norms of queries and of keys have summed over the shards, between two
  /// nodes. Only if the shards divide what is normed together.
  tensor::Tensor head_dots;  // [2 T]  f32
};

/// What a forward keeps for one microbatch. I marks what the input gradient reads, W what the
/// weight gradient reads. The letters are those of LayerShape; the widths I and O are Q and A of
/// attention, H and F of the feed-forward.
struct SublayerActivations {
  /// The sublayer's input; for a chunk's first layer without embedding the received buffer. That of
  /// the feed-forward holds the gradient of the layer's input after I.
  tensor::Tensor x;           // [S, C]  act  I
  NormStatistics statistics;  //              I
  tensor::Tensor norm;        // [S, C]  act  W    norm(x)
  /// The first product, if a norm of queries and keys makes `inner` of it; else empty.
  tensor::Tensor raw;           // [T, I]  act  I
  tensor::Tensor head_squares;  // [2 T]  f32   I    SublayerForm::sums_heads: of queries, of keys
  /// The first product. Those of a layer lie in one memory: attention reads its own before rotation
  /// alone. That of the feed-forward is replaced by its gradient in I.
  tensor::Tensor inner;   // [T, I]  act  I W
  tensor::Tensor saved;   // Attention's  I    rotated queries, keys; values
  tensor::Tensor lse;     // [T * heads]  I    float32, of attention
  tensor::Tensor hidden;  // [T, O]  act  I W  what the last product reads
  /// What the last product gives, if it is normed; else empty.
  tensor::Tensor branch;          // [S, C]  act  I
  NormStatistics end_statistics;  //              I
  /// What the As of adapters give, of both products; empty: there are none.
  tensor::Tensor in_low, out_low;  // [T, R]  act  W
  RoutedActivations routed;        // of a feed-forward with experts, in place of inner and hidden
  SublayerScratch scratch;

  HiddenDropout dropout;            // of the microbatch; evaluations drop nothing
  AdapterDropout adapter_dropout;   // the same of what adapters read
  tensor::AttentionCall attention;  // the same of probabilities, and the microbatch's documents

  /// What the first product writes.
  const tensor::Tensor& product() const { return raw ? raw : inner; }
};

/// What I keeps for W beyond SublayerActivations.
struct SublayerDeferred {
  tensor::Tensor dx;      // [S, C]  act  of the feed-forward: what attention's output has
  tensor::Tensor dinner;  // [T, I]  act  of attention; else `inner` itself
  NormParameters dnorm;   //              this microbatch's gradients
  /// The gradient of what the last product gives, where it is not that of the sublayer's output
  /// (SublayerForm::changes_branch()).
  tensor::Tensor dbranch;                 // [S, C]  act
  NormParameters dend_norm;               //  this microbatch's gradients
  tensor::Tensor dquery_norm, dkey_norm;  //  the same
  tensor::Tensor din_low, dout_low;       // [T, R]  act  the gradients of in_low and out_low
  tensor::Tensor dlogits;                 // [T, E]  f32  of a router
  tensor::Tensor dresults;                // [X, C]  act  of what experts gave, if rows travel
};

/// A sublayer of one microbatch in one pass: what the functions of Sublayer compute with.
struct SublayerCall {
  const SublayerWeights& weights;  ///< as the pass reads them
  const SublayerActivations& kept;
  /// [S, C] act: y of a forward, which may be the memory of kept.x if no backward reads that, or dy
  /// of a backward.
  const tensor::Tensor& out;
  const SublayerDeferred* deferred = nullptr;  ///< of a backward
  bool again = false;                          ///< whether a backward computes a forward again

  bool is_routed() const { return static_cast<bool>(weights.master.router); }
  /// The gradient of kept.inner.
  const tensor::Tensor& dinner() const { return deferred->dinner ? deferred->dinner : kept.inner; }
};

using BlockParameters = BranchPair<SublayerParameters>;
using BlockWeights = BranchPair<SublayerWeights>;
using PackedBlock = BranchPair<PackedSublayer>;
using BlockActivations = BranchPair<SublayerActivations>;
using BlockDeferred = BranchPair<SublayerDeferred>;

inline BlockWeights weights_of(const BlockParameters& master, const PackedBlock& packed,
                               std::size_t attention) {
  return {.attention = {master.attention, packed.attention, attention},
          .feed_forward = {master.feed_forward, packed.feed_forward}};
}

/// Groups of a layer's activations (the layer's input apart), to lay out some of them alone.
struct ActivationGroups {
  bool core = false;     ///< of attention: lse, hidden
  bool outputs = false;  ///< norm; hidden of the feed-forward
  bool sums = false;     ///< x of the feed-forward; inner
  bool inputs = false;   ///< what I alone reads: saved, statistics, raw, branch
  bool choice = false;   ///< of experts: never computed again
};
constexpr ActivationGroups kAllActivations{
    .core = true, .outputs = true, .sums = true, .inputs = true, .choice = true};
/// What a forward does not keep for a backward, which computes it again.
ActivationGroups discarded_by(Recompute::Mode mode);
ActivationGroups kept_by(Recompute::Mode mode);

/// Activations that are laid out nowhere yet.
BlockActivations without_memory(const SublayerScratch& scratch);
/// Lets the activations that lie in `memory` lie there, with its scratch; the others stay.
void move_activations(const BlockActivations& memory, BlockActivations& activations);

}  // namespace troupe::stages
