#pragma once

#include <memory>

#include "stages/arena.h"
#include "stages/layers/layer_shape.h"
#include "stages/streams.h"
#include "tensor/attention.h"
#include "tensor/linear.h"
#include "tensor/ops.h"

namespace troupe::stages {

/// The parameters of a decoder layer, or their gradients, in float32. Parameters that one product
/// computes with are joined.
struct BlockParameters {
  tensor::Tensor input_norm;  // [C]
  tensor::Tensor qkv;         // [Q, C]   q_proj, k_proj, v_proj
  tensor::Tensor o;           // [C, A]
  tensor::Tensor post_norm;   // [C]
  tensor::Tensor gate_up;     // [2F, C]  gate_proj, up_proj
  tensor::Tensor down;        // [C, F]
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

/// Memory that the backwards of all layers of a stage share, one after the other. dact and dattn
/// never outlast a node and lie in one memory.
struct BlockScratch {
  tensor::Tensor dact;   // [T, F]  act  gradient of `act`
  tensor::Tensor dattn;  // [T, A]  act  gradient of `attn`
  tensor::Tensor dnorm;  // [T, C]  act  gradient of `post_norm` or `input_norm`, from the node
                         //              after it to its own
};

/// What a forward keeps for one microbatch. I marks what the input gradient reads, W what the
/// weight gradient reads.
struct BlockActivations {
  tensor::Tensor x;           // [T, C]   act  I   the layer's input; for a chunk's first layer
                              //                   without embedding the received buffer
  tensor::Tensor x_rstd;      // [T]      f32  I
  tensor::Tensor input_norm;  // [T, C]   act  W   rms_norm(x)
  tensor::Tensor qkv;         // [T, Q]   act      before rotation; in the memory of gate_up
  tensor::Tensor saved;       // Attention's   I   rotated queries, keys; values
  tensor::Tensor lse;         // [T * heads] f32  I
  tensor::Tensor attn;        // [T, A]   act  I W
  tensor::Tensor mid;         // [T, C]   act  I   x + attention; after I the gradient of x
  tensor::Tensor mid_rstd;    // [T]      f32  I
  tensor::Tensor post_norm;   // [T, C]   act  W   rms_norm(mid)
  tensor::Tensor gate_up;     // [T, 2F]  act  I W after I its own gradient
  tensor::Tensor act;         // [T, F]   act  W   silu(gate) * up
  BlockScratch scratch;
};

/// What I keeps for W beyond BlockActivations.
struct BlockDeferred {
  tensor::Tensor dmid;         // [T, C]  act
  tensor::Tensor dqkv;         // [T, Q]  act
  tensor::Tensor dinput_norm;  // [C]     f32  this microbatch's norm weight gradients
  tensor::Tensor dpost_norm;   // [C]     f32
};

/// The Llama decoder layer, before the next layer's norm:
///   mid = x + Wo attention(Wqkv rms_norm(x))
///   y   = mid + Wdown swiglu(Wgate_up rms_norm(mid))
/// One object serves every layer of a stage; what belongs to a layer or a microbatch is passed in.
class DecoderBlock {
 public:
  DecoderBlock(const LayerSpec& spec, tensor::Device& device, const Streams& streams);

  PackedBlock lay_out_packed(Arena& arena) const;
  BlockScratch lay_out_scratch(Arena& arena) const;
  /// Scratch memory of the products. All layers use one memory in turn.
  tensor::ScratchBytes product_scratch_bytes() const;
  void set_product_scratch(const tensor::Scratch& scratch) const;
  /// Scratch memory of attention, which nothing else uses.
  tensor::ScratchBytes attention_scratch_bytes() const;
  void set_attention_scratch(const tensor::Scratch& scratch) const;
  /// Takes memory for the x of a layer that owns its input.
  tensor::Tensor lay_out_input(Arena& arena) const;
  /// Takes memory for all activations but x, because whether a layer owns its input depends on the
  /// chunk.
  BlockActivations lay_out_activations(Arena& arena, const BlockScratch& scratch) const;
  BlockDeferred lay_out_deferred(Arena& arena) const;

  void pack(const BlockWeights& weights) const;

  // The four nodes of a forward: from x over input_norm to mid, and from mid over post_norm to y.
  void forward_input_norm(const BlockWeights& weights, const BlockActivations& kept) const;
  void forward_attention(const BlockWeights& weights, const BlockActivations& kept) const;
  void forward_post_norm(const BlockWeights& weights, const BlockActivations& kept) const;
  /// y: [T, C] act; may be the memory of kept.x if no backward call follows.
  void forward_feed_forward(const BlockWeights& weights, const BlockActivations& kept,
                            const tensor::Tensor& y) const;

  // The input gradients lead from dy over deferred.dmid to dx; dy and dx are [T, C] act.
  void input_gradient_feed_forward(const BlockWeights& weights, const tensor::Tensor& dy,
                                   const BlockActivations& kept) const;
  void input_gradient_post_norm(const BlockWeights& weights, const tensor::Tensor& dy,
                                const BlockActivations& kept, const BlockDeferred& deferred) const;
  void input_gradient_attention(const BlockWeights& weights, const BlockActivations& kept,
                                const BlockDeferred& deferred) const;
  /// dx may be kept.mid.
  void input_gradient_input_norm(const BlockWeights& weights, const BlockActivations& kept,
                                 const BlockDeferred& deferred, const tensor::Tensor& dx) const;

  // The weight gradients write the first gradient of a step and add the later ones. They use what
  // the input gradients prepared with the same dy.
  void weight_gradient_feed_forward(const tensor::Tensor& dy, const BlockActivations& kept,
                                    const BlockParameters& gradients, tensor::Gradient which) const;
  void weight_gradient_post_norm(const BlockDeferred& deferred, const BlockParameters& gradients,
                                 tensor::Gradient which) const;
  void weight_gradient_attention(const BlockActivations& kept, const BlockDeferred& deferred,
                                 const BlockParameters& gradients, tensor::Gradient which) const;
  void weight_gradient_input_norm(const BlockDeferred& deferred, const BlockParameters& gradients,
                                  tensor::Gradient which) const;

 private:
  LayerShape shape_;
  float eps_;
  tensor::Ops& ops_;
  const Streams& streams_;
  std::unique_ptr<tensor::Linear> qkv_;
  std::unique_ptr<tensor::Linear> o_;
  std::unique_ptr<tensor::Linear> gate_up_;
  std::unique_ptr<tensor::Linear> down_;
  std::unique_ptr<tensor::Attention> attention_;
  std::int64_t heads_;
};

}  // namespace troupe::stages
