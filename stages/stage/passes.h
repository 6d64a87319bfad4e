#pragma once

#include <cstdint>
#include <span>

#include "tensor/device/process_group.h"
#include "tensor/values/tensor.h"

// The passes of a microbatch through a chunk of a stage, and what the caller of Stage gives to them
// and learns from them.

namespace troupe::stages {

/// The computations of a microbatch in a chunk that can be asked for.
enum class Pass {
  forward,
  backward,         ///< input and weight gradients
  input_gradient,   ///< input gradients alone; weight gradients are left for later
  weight_gradient,  ///< weight gradients that were left
};

/// What ends with a node, once the mark of ran() after it is reached, whether it is a short one,
/// and what it adds to.
struct NodeEffects {
  bool output = false;           ///< the tensor that the pass writes is complete
  bool input = false;            ///< no node reads the forward's input any more
  bool output_gradient = false;  ///< no node reads the backward's output_gradient any more
  bool brief = false;            ///< it computes no product: a norm, or the start of a collective
  /// Numbers in Stage::parameters() of those to whose gradients the node adds. Valid as long as the
  /// stage, as the other lists are.
  std::span<const int> gradients{};
  /// Numbers in Stage::buckets() of those to which the node adds, and of those whose weights it
  /// reads, if the replicas divide gradients or weights.
  std::span<const int> adds_to{};
  std::span<const int> reads{};
};

/// Told of each node before it is called, so that the memory which it needs is ready.
class NodeGate {
 public:
  virtual ~NodeGate() = default;
  /// The first collective that the node would make the host wait for, if one is not done yet. Null:
  /// none. Goes on with what must happen before, and never blocks.
  virtual const tensor::Work* awaited(Pass pass, const NodeEffects& node) = 0;
  /// Blocks until the node may be called, and lets its stream wait for what it needs. Returns the
  /// seconds that the host waited for collectives.
  virtual double open(Pass pass, const NodeEffects& node) = 0;
};

/// The place of a microbatch in the data, of which dropout is a function.
struct BatchPlace {
  std::int64_t step = 0;          ///< data step, from 0
  std::int64_t first_sample = 0;  ///< among the samples of the step, those of all replicas
  /// So many of its rows are of one lane (FeedSpec::lanes), the next ones of the next lane, and so
  /// on. 0: all are of one.
  std::int64_t lane_rows = 0;
  std::int64_t lane_samples = 0;  ///< of the step, from the first one of a lane to that of the next
};

/// The documents that the rows of a microbatch are, as DocumentBatches lays them out. In pinned
/// memory, valid until synchronize().
struct DocumentRows {
  std::int64_t rows = 0;  ///< 0: the microbatch has no documents but `micro` samples of seq_len
  std::span<const std::int32_t> starts{};     ///< of each document, and the last one's end
  std::span<const std::int32_t> positions{};  ///< of each row in its document
  std::span<const std::int32_t> real{};       ///< of each row 1; 0: it is padding
};

/// The forward of one microbatch in one chunk.
struct ForwardCall {
  int chunk = 0;
  int slot = 0;
  /// None for the embedding's chunk, which reads ids. Valid until the node that ends it
  /// (NodeEffects), which mostly belongs to a backward.
  tensor::Tensor input{};
  tensor::Tensor output{};  ///< none for the head's chunk
  /// `ids` and `targets` hold micro * seq_len tokens each, or one a row of documents, in pinned
  /// memory, below vocab_size, valid until synchronize(). A target may be tensor::kNoTarget.
  std::span<const std::int32_t> ids{};      ///< read by the embedding
  std::span<const std::int32_t> targets{};  ///< read by the head
  BatchPlace place{};
  DocumentRows documents{};
  /// Targets of the whole step, of whose mean loss the gradients are; 0: StageSpec::global_tokens.
  std::int64_t step_targets = 0;
  /// One float64 in pinned memory, given to the head's chunk alone. Once the head's last node has
  /// run it holds the sum of the tokens' losses, and 0 beyond shard 0.
  tensor::Tensor loss{};
  /// If given: float64 in pinned memory, one a row, which then hold each token's loss; 0 where a
  /// row has no target. A shard that sums nothing needs none.
  tensor::Tensor token_losses{};
};

/// A backward of one microbatch in one chunk, or a part of it.
struct BackwardCall {
  Pass pass = Pass::backward;  ///< any but forward
  int chunk = 0;
  int slot = 0;
  /// The slot in which the input gradients keep what the weight gradients need later. A whole
  /// backward needs none.
  int deferred = 0;
  /// None for the head's chunk. Valid until the node that ends it (NodeEffects). Weight gradients
  /// that come later use output_gradient and input_gradient as the input gradients were given them.
  tensor::Tensor output_gradient{};
  tensor::Tensor input_gradient{};  ///< none for the embedding's chunk; not read once complete
};

}  // namespace troupe::stages
