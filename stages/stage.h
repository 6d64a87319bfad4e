#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor/device.h"
#include "tensor/ops.h"

namespace troupe::stages {

/// A consecutive range of decoder layers, maybe none, with the embedding before or the head after
/// it. A chunk that holds nothing at all passes on what it gets.
struct ChunkSpec {
  int first_layer = 0;
  int end_layer = 0;       ///< one past the last
  bool embedding = false;  ///< the model's first chunk
  bool head = false;       ///< the model's last chunk: final norm, head and loss
  bool owned = true;       ///< false: a copy of what another stage owns (Parameter::owned)
  int live = 1;            ///< activation slots: microbatches between F and B or W at once
  int deferred = 0;        ///< slots for what I keeps for W
  bool operator==(const ChunkSpec&) const = default;
};

/// A parameter that a stage holds, with its training state; all but the weight are empty in a stage
/// that does not train. Views stay valid as long as the stage.
struct Parameter {
  std::string name;         ///< Hugging Face name
  tensor::Tensor weight;    ///< float32 master
  tensor::Tensor gradient;  ///< float32, the step's sum so far, once there is a first one
  tensor::Tensor exp_avg;
  tensor::Tensor exp_avg_sq;
  bool decays = false;  ///< weight decay applies
  /// False for a copy of a parameter that another stage owns: the head's of a tied embedding, or a
  /// whole chunk's (ChunkSpec::owned). It is updated alike, but counted and saved by the owner.
  bool owned = true;
};

/// What the rank holding the loss learns from a microbatch.
struct ForwardResult {
  double loss_sum = 0;  ///< sum of the tokens' losses; 0 without the head
};

/// What may be computed of a microbatch in a chunk at a time.
enum class Pass {
  forward,
  backward,         ///< input and weight gradients
  input_gradient,   ///< those alone; the others are left for later
  weight_gradient,  ///< those that were left
};

/// What is over once a node has run, and the caller was told so by wait().
struct NodeEnd {
  bool output = false;           ///< what the pass writes is complete
  bool input = false;            ///< nothing reads the forward's input any more
  bool output_gradient = false;  ///< nothing reads the backward's output_gradient any more
};

/// The forward of one microbatch in one chunk.
struct ForwardCall {
  int chunk = 0;
  int slot = 0;
  /// None for the embedding's chunk, which reads ids. Valid until the node that ends it, mostly one
  /// of a backward.
  tensor::Tensor input{};
  tensor::Tensor output{};  ///< none for the head's chunk
  /// micro * seq_len tokens each in host memory, below vocab_size, valid until wait().
  std::span<const std::int32_t> ids{};      ///< read by the embedding
  std::span<const std::int32_t> targets{};  ///< read by the head
};

/// A backward of one microbatch in one chunk, or a part of it.
struct BackwardCall {
  Pass pass = Pass::backward;  ///< none but forward
  int chunk = 0;
  int slot = 0;
  /// Where the input gradients leave what the weight gradients need later; a whole backward needs
  /// none.
  int deferred = 0;
  /// None for the head's chunk. Valid until the node that ends it. Weight gradients that come later
  /// find what the input gradients were given, of this and the next.
  tensor::Tensor output_gradient{};
  tensor::Tensor input_gradient{};  ///< none for the embedding's chunk; not read once complete
};

/// What one pipeline rank holds: chunks with parameters, activations and optimizer state. It knows
/// no neighbour, rank or message: the runner hands it buffers. `chunk` counts the chunks of this
/// stage, in model order. `slot` and `deferred` number the caller's use of the activation slots: a
/// slot is taken by a forward and free after its microbatch's weight gradients. All calls come from
/// the runner thread. Nothing here allocates after construction.
///
/// A pass is a row of nodes. A forward's: the embedding, then norm, attention, norm and
/// feed-forward of every layer, then the head with its norm; one that copies where there is none of
/// them. A backward's are the same from the end, an input gradient and a weight gradient of each;
/// a layer's attention is the last to get its weight gradient, after the layer's own input
/// gradient. The nodes of one forward and one backward, of different microbatches, may alternate in
/// any way; their results are the same bits. The rows of two forwards, or of two backwards, follow
/// each other.
///
/// Nodes of forwards run on one stream of the device, those of backwards on another. A node waits
/// for its slot's last one, on whichever stream that was. A call only hands the node to its stream:
/// what the caller reads or uses again he waits for.
///
/// A step: begin_step(), the plan's forward and backward calls, synchronize(), the exchange of
/// tied_gradient(), end_backward(), the sum of gradients() over copies and replicas,
/// squared_norms(), apply(). A step that is dropped on the way is simply followed by the next
/// begin_step().
class Stage {
 public:
  virtual ~Stage() = default;

  virtual int num_chunks() const = 0;
  /// Shape and dtype of what travels between chunks: [micro * seq_len, hidden_size].
  virtual tensor::Shape edge_shape() const = 0;
  virtual tensor::DType edge_dtype() const = 0;

  /// Before the first action of a step: packs weights that changed, and lets the next gradient of
  /// each weight be its first, which is written over what it held.
  virtual void begin_step() = 0;
  /// The nodes of a pass in the order they run, at least one. Valid as long as the stage.
  virtual std::span<const NodeEnd> nodes(int chunk, Pass pass) const = 0;
  /// The head's node returns the loss, and blocks for it.
  virtual ForwardResult forward_node(const ForwardCall& call, int node) = 0;
  virtual void backward_node(const BackwardCall& call, int node) = 0;
  /// Blocks until all nodes of this slot that were called have run.
  virtual void wait(int chunk, int slot) = 0;
  /// Blocks until everything that was called has run, and gives weights that had no gradient in the
  /// step one of zero: after the last action, and before a dropped step's buffers are used
  /// otherwise.
  virtual void synchronize() = 0;
  /// All nodes, and wait().
  ForwardResult forward(const ForwardCall& call);
  void backward(const BackwardCall& call);
  /// Forward without what backward would need; training state is untouched. No slot is taken. The
  /// head chunk may be given an `output` too, [micro * seq_len, vocab_size] float32, which
  /// receives the logits; without `targets` the loss is 0 then.
  virtual ForwardResult evaluate(int chunk, const tensor::Tensor& input,
                                 const tensor::Tensor& output, std::span<const std::int32_t> ids,
                                 std::span<const std::int32_t> targets) = 0;

  /// The stage's parameters in canonical order, each once.
  virtual std::span<const Parameter> parameters() const = 0;
  /// One contiguous float32 tensor over all gradients of parameters(), to be summed over replicas.
  /// Elements between parameters are zero.
  virtual tensor::Tensor gradients() const = 0;
  /// Tied embeddings whose two uses lie on two stages: the gradient of this stage's use,
  /// [vocab_size, hidden_size], a part of gradients(). The caller replaces both stages' by their
  /// sum, embedding + head, before end_backward(). Empty if the embeddings are not tied, this
  /// stage has no use of them, or has both: then end_backward() forms the same sum.
  virtual tensor::Tensor tied_gradient() const = 0;
  /// After the last action and the exchange of tied_gradient(): completes gradients(). It, and what
  /// follows, blocks until it has run.
  virtual void end_backward() = 0;
  /// Sum of squares of each of parameters()'s gradients; 0 where not owned.
  virtual void squared_norms(std::span<double> out) const = 0;
  /// One optimizer update of all parameters; weight decay follows Parameter::decays.
  virtual void apply(const tensor::AdamWStep& step) = 0;
  /// Undoes the last apply(), where StageSpec::keep_previous is set and there was one since the
  /// weights were last written or stepped back. Any kept view of parameters() still holds, but what
  /// exp_avg and exp_avg_sq refer to changes with each apply().
  virtual void step_back() = 0;
  virtual bool has_previous() const = 0;
  /// The weights were written from outside (a checkpoint), with everything that was called having
  /// run: pack again before they are next used.
  virtual void weights_changed() = 0;
};

inline ForwardResult Stage::forward(const ForwardCall& call) {
  ForwardResult result;
  const int count = static_cast<int>(nodes(call.chunk, Pass::forward).size());
  for (int node = 0; node < count; ++node) result.loss_sum += forward_node(call, node).loss_sum;
  wait(call.chunk, call.slot);
  return result;
}
inline void Stage::backward(const BackwardCall& call) {
  const int count = static_cast<int>(nodes(call.chunk, call.pass).size());
  for (int node = 0; node < count; ++node) backward_node(call, node);
  wait(call.chunk, call.slot);
}

}  // namespace troupe::stages
