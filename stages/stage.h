#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor/device.h"
#include "tensor/ops.h"

namespace troupe::stages {

/// A consecutive range of decoder layers, with the embedding before or the head after it.
struct ChunkSpec {
  int first_layer = 0;
  int end_layer = 0;       ///< one past the last
  bool embedding = false;  ///< the model's first chunk
  bool head = false;       ///< the model's last chunk: final norm, head and loss
  int live = 1;            ///< activation slots: microbatches between F and B or W at once
  int deferred = 0;        ///< slots for what I keeps for W
};

/// A parameter that a stage holds, with its training state. Views stay valid as long as the stage.
struct Parameter {
  std::string name;        ///< Hugging Face name
  tensor::Tensor weight;   ///< float32 master
  tensor::Tensor gradient; ///< float32, the step's sum so far
  tensor::Tensor exp_avg;
  tensor::Tensor exp_avg_sq;
  bool decays = false;     ///< weight decay applies
  /// False for the head's copy of a tied embedding where the embedding lies on another stage: it is updated alike, but
  /// counted and saved by the stage with the embedding.
  bool owned = true;
};

/// What the rank holding the loss learns from a microbatch.
struct ForwardResult {
  double loss_sum = 0;  ///< sum of the tokens' losses; 0 without the head
};

/// What one pipeline rank holds: chunks with parameters, activations and optimizer state. It knows no neighbour, rank
/// or message: the runner hands it buffers. `chunk` counts the chunks of this stage, in model order. `slot` and
/// `deferred` number the caller's use of the activation slots: a slot is taken by forward() and free after the
/// backward_weight() or backward() of its microbatch. All calls come from the runner thread. Nothing here allocates
/// after construction.
class Stage {
 public:
  virtual ~Stage() = default;

  virtual int num_chunks() const = 0;
  /// Shape and dtype of what travels between chunks: [micro * seq_len, hidden_size].
  virtual tensor::Shape edge_shape() const = 0;
  virtual tensor::DType edge_dtype() const = 0;

  /// Before the first action of a step: zeroes gradients, packs weights that changed.
  virtual void begin_step() = 0;
  /// `input` (none for the embedding chunk, which reads `ids`) is read again in the backward calls: it stays valid until
  /// then. `output` is written (none for the head chunk, which reads `targets`). Both spans hold micro * seq_len tokens
  /// and are needed during the call only.
  virtual ForwardResult forward(int chunk, int slot, const tensor::Tensor& input, const tensor::Tensor& output,
                                std::span<const std::int32_t> ids, std::span<const std::int32_t> targets) = 0;
  /// Forward without what backward would need; training state is untouched. No slot is taken.
  virtual ForwardResult evaluate(int chunk, const tensor::Tensor& input, const tensor::Tensor& output,
                                 std::span<const std::int32_t> ids, std::span<const std::int32_t> targets) = 0;
  /// Input gradient of the slot's microbatch: from output_gradient (none for the head chunk; stays valid until
  /// backward_weight) to input_gradient (none for the embedding chunk).
  virtual void backward_input(int chunk, int slot, int deferred, const tensor::Tensor& output_gradient,
                              const tensor::Tensor& input_gradient) = 0;
  /// Adds the slot's weight gradients. Ends the use of slot and deferred.
  virtual void backward_weight(int chunk, int slot, int deferred) = 0;
  /// backward_input then backward_weight layer by layer, without a deferred slot; the same bits.
  virtual void backward(int chunk, int slot, const tensor::Tensor& output_gradient,
                        const tensor::Tensor& input_gradient) = 0;

  /// The stage's parameters in canonical order, each once.
  virtual std::span<const Parameter> parameters() const = 0;
  /// One contiguous float32 tensor over all gradients of parameters(), to be summed over replicas.
  virtual tensor::Tensor gradients() const = 0;
  /// Tied embeddings: this stage's own use's gradient ([vocab, hidden]); empty if not tied or both uses are here (then
  /// end_backward adds them). The caller sums both stages' (embedding first, then head) in place before end_backward().
  virtual tensor::Tensor tied_gradient() const = 0;
  /// After the last action: completes gradients() (adds both uses of a tied embedding).
  virtual void end_backward() = 0;
  /// Sum of squares of each of parameters()'s gradients; 0 where not owned.
  virtual void squared_norms(std::span<double> out) const = 0;
  /// One optimizer update of all parameters; weight decay follows Parameter::decays.
  virtual void apply(const tensor::AdamWStep& step) = 0;
  /// The weights were written from outside (a checkpoint): pack again at the next begin_step().
  virtual void weights_changed() = 0;
};

}  // namespace troupe::stages
