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
  tensor::Tensor gradient;  ///< float32, the step's sum so far
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

/// The forward of one microbatch in one chunk.
struct ForwardCall {
  int chunk = 0;
  int slot = 0;
  /// None for the embedding's chunk, which reads ids. It is read again by the backward: it stays
  /// valid until then.
  tensor::Tensor input{};
  tensor::Tensor output{};  ///< written by the last node; none for the head's chunk
  /// micro * seq_len tokens each in host memory, below vocab_size, needed during the calls only.
  std::span<const std::int32_t> ids{};      ///< read by the embedding
  std::span<const std::int32_t> targets{};  ///< read by the head
};

/// The backward of one microbatch in one chunk.
struct BackwardCall {
  /// Weight gradients follow each node's input gradient at once, without a deferred slot.
  static constexpr int kWithWeights = -1;

  int chunk = 0;
  int slot = 0;
  int deferred = kWithWeights;       ///< else: where backward_weight() finds what it needs later
  tensor::Tensor output_gradient{};  ///< none for the head's chunk; valid until weight gradients
  tensor::Tensor input_gradient{};   ///< written by the last node; none for the embedding's chunk
};

/// What one pipeline rank holds: chunks with parameters, activations and optimizer state. It knows
/// no neighbour, rank or message: the runner hands it buffers. `chunk` counts the chunks of this
/// stage, in model order. `slot` and `deferred` number the caller's use of the activation slots: a
/// slot is taken by a forward and free after the backward_weight() of its microbatch, or the
/// backward with weights. All calls come from the runner thread. Nothing here allocates after
/// construction.
///
/// A forward is a row of nodes: the embedding, then norm, attention, norm and feed-forward of every
/// layer, then the head with its norm; one that copies where there is none of them. A backward
/// is the same row from its end. The nodes of one forward and one backward, of different
/// microbatches, may alternate in any way; their results are the same bits.
///
/// A step: begin_step(), the plan's forward and backward calls, the exchange of tied_gradient(),
/// end_backward(), the sum of gradients() over copies and replicas, squared_norms(), apply(). A
/// step that is dropped on the way is simply followed by the next begin_step().
class Stage {
 public:
  virtual ~Stage() = default;

  virtual int num_chunks() const = 0;
  /// Shape and dtype of what travels between chunks: [micro * seq_len, hidden_size].
  virtual tensor::Shape edge_shape() const = 0;
  virtual tensor::DType edge_dtype() const = 0;

  /// Before the first action of a step: zeroes gradients (where there are some), packs weights that
  /// changed.
  virtual void begin_step() = 0;
  virtual int num_nodes(int chunk) const = 0;
  /// Node 0 is the first to run, of a backward too. The head's node returns the loss.
  virtual ForwardResult forward_node(const ForwardCall& call, int node) = 0;
  virtual void backward_node(const BackwardCall& call, int node) = 0;
  /// All nodes.
  ForwardResult forward(const ForwardCall& call);
  void backward(const BackwardCall& call);
  /// Adds the weight gradients that a backward left for later. Ends the use of slot and deferred.
  virtual void backward_weight(int chunk, int slot, int deferred) = 0;
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
  /// After the last action and the exchange of tied_gradient(): completes gradients().
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
  /// The weights were written from outside (a checkpoint): pack again before they are next used.
  virtual void weights_changed() = 0;
};

inline ForwardResult Stage::forward(const ForwardCall& call) {
  ForwardResult result;
  for (int node = 0; node < num_nodes(call.chunk); ++node)
    result.loss_sum += forward_node(call, node).loss_sum;
  return result;
}
inline void Stage::backward(const BackwardCall& call) {
  for (int node = 0; node < num_nodes(call.chunk); ++node) backward_node(call, node);
}

}  // namespace troupe::stages
