#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stages/stage/parameter.h"
#include "stages/stage/passes.h"
#include "stages/stage/router_load.h"
#include "tensor/device/device.h"
#include "tensor/device/ops.h"
#include "tensor/device/process_group.h"
#include "tensor/errors/error.h"
#include "tensor/parallel/expert_parallel.h"
#include "tensor/values/region.h"

namespace troupe::stages {

struct StageMemory;

/// A consecutive range of decoder layers, maybe empty, with the embedding before or the head after
/// it. A chunk that holds nothing at all copies its input to its output.
struct ChunkSpec {
  int first_layer = 0;
  int end_layer = 0;       ///< one past the last layer
  bool embedding = false;  ///< the model's first chunk
  bool head = false;       ///< the model's last chunk: final norm, head and loss
  bool owned = true;  ///< false for a copy of a chunk that another stage owns (Parameter::owned)
  int live = 1;       ///< activation slots: microbatches between F and B or W at once
  int deferred = 0;   ///< slots for what I keeps for W, at once
  std::size_t num_layers() const { return static_cast<std::size_t>(end_layer - first_layer); }
  bool operator==(const ChunkSpec&) const = default;
};

/// Shards that hold the same parameters, so that the gradient of each is a part of a sum.
enum class Sharers {
  all,  ///< all shards of the stage: norms, whole biases and positions, if each has tokens of its
        ///< own; norms of single heads
  kv_head,  ///< those with the same key and value heads: these heads
};

/// The groups of the shards that compute a stage's layers together, and of the replicas that share
/// out its experts. Null for a stage of one shard;
/// `gradients` also if no gradient is a part of a sum over all of them (sums_gradients()),
/// `kv_head` if no other shard has the same key and value heads. sum_over_shards() has groups of
/// its own, because its calls come between those of passes at times that differ between shards.
struct ShardGroups {
  tensor::ProcessGroup* forward = nullptr;    ///< for collectives of forwards and evaluations
  tensor::ProcessGroup* backward = nullptr;   ///< for those of backwards
  tensor::ProcessGroup* gradients = nullptr;  ///< for sum_over_shards(): all shards
  tensor::ProcessGroup* kv_head = nullptr;    ///< the same: those with the same heads
  tensor::ExpertParallelGroups experts{};
};

/// The state of one pipeline rank: chunks with parameters, activations and optimizer state. It
/// knows no neighbour, rank or message: the caller hands it buffers. `chunk` counts the chunks of
/// this stage, in model order. `slot` and `deferred` number the caller's use of the activation
/// slots: a slot is taken by a forward and free after its microbatch's weight gradients. All calls
/// come from the compute thread. Nothing here allocates after construction.
///
/// A pass is a row of nodes. The nodes of a forward are the embedding, then norm, attention, norm
/// and feed-forward of every layer, then the head with its norm; a chunk with none of these has one
/// node that copies. A backward has the same nodes in reverse, an input gradient and a weight
/// gradient of each; within a layer, the weight gradients of attention and of its norm come last,
/// after the layer's own input gradient. What a backward computes again are nodes of it too, before
/// the input gradients that need it. The nodes of one forward and one backward, of different
/// microbatches, may alternate in any way; their results are the same bits. The rows of two
/// forwards, or of two backwards, follow each other. If they alternate otherwise on another shard,
/// no node may be called before awaited() says that it can run: a shard that blocks in a collective
/// of one row keeps another from that of the other row.
///
/// Nodes of forwards run on one stream of the device, those of backwards on another. A node waits
/// for the last node of its slot, on whichever stream that was. A call only hands the node to its
/// stream: the caller must wait for what it reads or uses again, by ran() or synchronize().
///
/// A step: begin_step(), the plan's forward and backward calls, synchronize(), what completes the
/// gradients (replicas/data_parallel.h), squared_norms(), apply(). Gradients of some parameters may
/// be completed while backwards of others run. A step that is given up half way ends with
/// drop_step(), and is followed by the next begin_step().
class Stage {
 public:
  virtual ~Stage() = default;

  virtual int num_chunks() const = 0;
  /// The bytes that the stage has allocated, which do not change.
  virtual StageMemory allocated() const = 0;
  /// Sets the groups of the stage's shards, which outlive their use here. Called before anything is
  /// computed, and again when groups end. No node may be under way.
  virtual void join(const ShardGroups& groups) = 0;
  /// Sets what is told of each node, also of those of evaluations; it outlives its use here. Null:
  /// nobody.
  virtual void set_gate(NodeGate* gate) = 0;
  /// Shape of the tensors that travel between chunks, of dtype edge_dtype(): [micro * seq_len,
  /// hidden_size]. A microbatch of documents uses as many rows of it as it has.
  virtual tensor::Shape edge_shape() const = 0;
  virtual tensor::DType edge_dtype() const = 0;

  /// Called before the first action of a step. Packs weights that changed, and makes the next
  /// gradient of each weight the first one, which overwrites what was there.
  virtual void begin_step() = 0;
  /// Gives the memory of gradients back to the machine until the next begin_step(), as far as the
  /// device can. Only between steps. Returns the bytes.
  virtual std::int64_t give_up_gradients() = 0;
  /// The nodes of a pass in the order in which they run, at least one. Valid as long as the stage.
  virtual std::span<const NodeEffects> nodes(int chunk, Pass pass) const = 0;
  /// The first collective that the node would make the host wait for, if one is not done yet. Null:
  /// the node would be queued at once. Valid until that node is called.
  virtual const tensor::Work* awaited(Pass pass, int chunk, int slot, int node) const = 0;
  virtual void forward_node(const ForwardCall& call, int node) = 0;
  virtual void backward_node(const BackwardCall& call, int node) = 0;
  /// The event whose latest mark is the end of the nodes of this slot that were called.
  virtual tensor::Event& ran(int chunk, int slot) = 0;
  /// The stream that a pass's nodes run on.
  virtual tensor::Stream& stream_of(Pass pass) const = 0;
  /// Blocks until every node that was called has run, and sets the gradient of weights that had
  /// none in the step to zero. Called after the last action, and before the buffers of a dropped
  /// step are used otherwise.
  virtual void synchronize() = 0;
  /// Seconds that nodes have waited for collectives of the shards, or for the gate's, since
  /// begin_step().
  virtual double collective_wait_s() const = 0;
  /// What the routers of the stage's layers have done in the step, by layer; none of a model
  /// without experts. Valid from synchronize() to begin_step().
  virtual std::span<const RouterLoad> router_loads() const { return {}; }
  /// A forward that keeps nothing for a backward. Blocks until it has run, and returns the sum of
  /// the tokens' losses: 0 without the head or beyond shard 0. Training state is untouched, and no
  /// slot is taken. The head chunk may be given an `output` too, [micro * seq_len, vocab_size]
  /// float32, which receives the logits; without `targets` the loss is 0 then. A shard gives the
  /// columns of its part of the vocabulary. A value head takes no targets, and gives [micro *
  /// seq_len, 1] on every shard.
  virtual double evaluate(int chunk, const tensor::Tensor& input, const tensor::Tensor& output,
                          std::span<const std::int32_t> ids, std::span<const std::int32_t> targets,
                          const DocumentRows& documents = {}) = 0;

  /// The stage's parameters in canonical order, each once.
  virtual std::span<const Parameter> parameters() const = 0;
  /// One contiguous float32 tensor over all gradients of parameters(), to be summed over replicas.
  /// Elements between parameters are zero. Empty if the replicas divide gradients.
  virtual tensor::Tensor gradients() const = 0;
  /// All weights, laid out alike. Empty if the replicas divide weights.
  virtual tensor::Tensor weights() const = 0;
  /// The weights of a frozen base (UpdateRule::is_base), one after the other; empty: none.
  virtual tensor::Tensor base() const { return {}; }
  /// The buckets of a stage whose replicas divide state; else none.
  virtual std::span<const StateBucket> buckets() const = 0;
  /// Packs the weights of a bucket, which have been gathered, for a pass's nodes.
  virtual void pack(int bucket, Pass pass) = 0;
  /// The gradient of this stage's use of tied embeddings, [vocab_size, hidden_size], a part of
  /// gradients(), or of this replica's slice of it if gradients are divided, if the other use lies
  /// on another stage. The caller replaces the gradients of both
  /// stages by their sum, embedding + head, before anything else is added. Empty if the embeddings
  /// are not tied, or if this stage has no use of them or has both uses (add_tied_uses()).
  virtual tensor::Tensor tied_gradient() const = 0;
  /// Adds the head's use of a tied embedding to the embedding's if this stage has both and the
  /// embedding is among these parameters. Called once a step, when both uses are complete.
  virtual void add_tied_uses(tensor::Stream& stream, const ParameterRange& parameters) = 0;
  /// Starts the sum of the gradients of those of these parameters that the sharers hold alike. Null
  /// if there is nothing to add. Every shard calls it for the same parameters in the same order.
  virtual std::unique_ptr<tensor::Work> sum_over_shards(tensor::Stream& stream,
                                                        const ParameterRange& parameters,
                                                        Sharers sharers) = 0;
  /// Sum of squares of the gradient of each of parameters(); 0 for parameters that are not owned,
  /// or are frozen. Blocks until it has run, as apply() and step_back() do.
  virtual void squared_norms(std::span<double> out) const = 0;
  /// One optimizer update of the slices that this replica keeps, each by Parameter::update.
  virtual void apply(const tensor::AdamWStep& step) = 0;
  /// Undoes the last apply(). Needs StageSpec::keep_previous, and an apply() since the weights were
  /// last written or stepped back. Any kept view of parameters() still holds, but what exp_avg and
  /// exp_avg_sq refer to changes with each apply().
  virtual void step_back() = 0;
  virtual bool has_previous() const = 0;
  /// Tells the stage that the weights were written from outside (a checkpoint), after everything
  /// that was called had run. They are packed again before their next use.
  virtual void weights_changed() = 0;
  /// Blocks until every node that was called has run, in place of synchronize() for a step that is
  /// given up: gradients to which no backward has added since begin_step() are still those of the
  /// step before.
  virtual void drop_step() = 0;
  /// Tells the stage that weights which this replica does not keep were written. They are packed
  /// again before their next use; what step_back() needs stays.
  virtual void weights_gathered() = 0;
};

/// Blocks until a stream, or several, have run everything, before memory that their ops use is
/// given back.
template <typename StreamOrStreams>
void leave(StreamOrStreams& streams) try {
  streams.synchronize();
} catch (const Error&) {
  // The device has failed, and runs nothing more.
}

}  // namespace troupe::stages
