#pragma once

#include "stages/decoder/layers/layer_shape.h"
#include "stages/stage/stage.h"
#include "tensor/device/attention.h"
#include "tensor/device/ops.h"
#include "tensor/values/random.h"

namespace troupe::stages {

/// Dropout of the tokens [S, C] between layers, in one microbatch.
struct HiddenDropout {
  tensor::Dropout dropout;   ///< p = 0: none
  std::int64_t columns = 0;  ///< C; those of all shards
  std::int64_t first_column = 0;
  std::int64_t first_row = 0;  ///< of the microbatch, among the step's [global_samples * seq_len]
  std::int64_t run = 0;        ///< so many of its rows follow each other there; 0: all
  std::int64_t gap = 0;        ///< rows of others between two runs; below 0: they overlap
  std::int64_t before = 0;     ///< rows of the microbatch before the shard's

  bool drops() const { return dropout.p > 0; }
  /// y = x where kept, times the scale, + residual if there is one. y may be x or residual itself.
  void apply(tensor::Ops& ops, tensor::Stream& stream, const tensor::Tensor& x,
             const tensor::Tensor& y, const tensor::Tensor& residual = {}) const;
};

/// Dropout of what an adapter reads beside the two products of a sublayer, of all tokens.
struct AdapterDropout {
  HiddenDropout in, out;
};

/// Dropout of one decoder layer in one microbatch.
struct BlockDropout {
  HiddenDropout attention, feed_forward;  ///< of the branches' outputs, before the residual
  AdapterDropout attention_adapter, feed_forward_adapter;
  tensor::AttentionCall probabilities;
};

/// What a model drops in training, where GPT-2 and Megatron-LM drop: the embedding's output, the
/// output of each branch before its residual, and the probabilities of attention; and, as PEFT
/// does, what adapters read, once for all targets of a product. Every element is
/// a pure function of the seed, the place in the model, the data step and the element's index in
/// the tensor of the whole step and all shards. So all cuts of the model and of the batch drop
/// alike, as does a step or a forward that is done again.
class LayerDropout {
 public:
  explicit LayerDropout(const LayerSpec& spec);
  HiddenDropout of_embedding(const BatchPlace& place, std::int64_t tokens) const;
  /// `layer` counts the layers of the model, `tokens` those of the microbatch.
  BlockDropout of_block(int layer, const BatchPlace& place, std::int64_t tokens) const;

 private:
  std::int64_t gap_of(const BatchPlace& place) const;
  HiddenDropout hidden(const tensor::Random& random, const BatchPlace& place,
                       std::int64_t tokens) const;
  AdapterDropout of_adapter(const tensor::Random& random, const BatchPlace& place,
                            std::int64_t width) const;

  LayerShape shape_;
  int num_shards_, number_;  ///< of tensor parallelism
  float hidden_p_, attention_p_, adapter_p_;
  std::int64_t seq_len_, global_samples_;
  std::int64_t shard_;  ///< of those that the tokens are divided among
  tensor::Random embedding_, attention_, probabilities_, feed_forward_;
  tensor::Random attention_adapter_, feed_forward_adapter_;
};

/// The gradient of what was dropped, if its result has the gradient dy [S, C]: dy itself if nothing
/// is dropped, else `dropped`, which is filled.
const tensor::Tensor& gradient_before(const HiddenDropout& dropout, tensor::Ops& ops,
                                      tensor::Stream& stream, const tensor::Tensor& dy,
                                      const tensor::Tensor& dropped);

}  // namespace troupe::stages
