#pragma once

#include <cstddef>
#include <optional>

#include "tensor/device.h"
#include "tensor/dropout.h"
#include "tensor/rotary.h"
#include "tensor/scratch.h"

namespace troupe::tensor {

/// What is added to the scaled scores, besides the causal rule: nothing; a value for each pair of
/// positions, mask[S,S] (query, key); or one for each key of a sequence, mask[B,S]. float32; -inf
/// hides a key.
enum class Mask { none, pairs, keys };

struct AttentionShape {
  std::int64_t batch = 0;     // B
  std::int64_t seq_len = 0;   // S
  std::int64_t heads = 0;     // H
  std::int64_t kv_heads = 0;  // K, divides H; each serves H/K consecutive query heads
  std::int64_t head_dim = 0;  // D, even if rotary
  DType dtype = DType::f32;
  /// How q and k are rotated by their positions, each sequence being of length S; none: not at all.
  std::optional<Rotary> rotary = Rotary{};
  bool causal = true;  // whether a query sees no later key
  Mask mask = Mask::none;
  /// Whether the rows of a call are documents of any length up to S, side by side: at most B * S
  /// rows, B having no other meaning. Each document is attended to alone, and its positions, and
  /// what of the rotation depends on a length, are its own. There is no mask.
  bool documents = false;
  std::int64_t first_head = 0;  // of the H among all heads of the layer; for dropout
};
/// Throws Error for a shape that has no meaning.
void check(const AttentionShape& shape);

/// What a forward and its backward are given besides their tensors, the same for both.
struct AttentionCall {
  Tensor mask;  // as the shape's mask says
  /// If the shape has documents: the row at which each of n documents begins, the first at 0, and
  /// the one after the last, [n + 1] int32, which the host may not be able to read. What is
  /// computed for the rows after the last document is 0.
  Tensor documents;
  /// Dropout of the probabilities, if its p is not 0. The index of an element is its place in the
  /// tensor [heads of the layer, sequences, S, S] (head, sequence, query, key), so that a part of
  /// the heads and a part of the sequences are dropped as they would be with all of them. Of
  /// documents, row r stands for query r mod S of sequence r / S, and keys count from the
  /// document's first.
  Dropout dropout;
  std::int64_t sequences = 0;       // of all batches that are dropped as one; 0: B, this one alone
  std::int64_t first_sequence = 0;  // of the B among them
};
/// Asserts that `call` holds what the shape asks for.
void check(const AttentionShape& shape, const AttentionCall& call);

/// Rotary embedding (rotate-half, tables in float32, scaled as the type says) and grouped-query
/// attention with scale 1/sqrt(D), for one shape; one object serves every layer. Works in blocks of
/// query rows: never holds S x S scores of a head (as FlashAttention, arXiv 2205.14135; the
/// backward pass recomputes the probabilities from the log-sum-exp). A query that sees no key gives
/// zeros, its lse is -inf, and no gradient passes through it. A forward may run at the same time as
/// a backward; two forwards or two backwards may not.
class Attention {
 public:
  virtual ~Attention() = default;
  /// Number of elements (of dtype) of `saved`, which holds q and k, rotated if so asked, and v,
  /// in a layout of the device's own.
  virtual std::int64_t saved_elements() const = 0;
  /// Memory that calls work in, given once, before the first call. `forward` also holds tables and
  /// may not be shared with other objects. Nothing in `backward` outlasts a call; it is null if no
  /// backward follows.
  virtual ScratchBytes scratch_bytes() const = 0;
  virtual void set_scratch(const Scratch& scratch) = 0;
  /// B*S stands for the rows of a call, which of documents may be fewer; their lse is [H * rows].
  /// qkv[B*S, (H + 2K)*D]: columns q heads, k heads, v heads. Fills saved, lse[B*H*S] (float32),
  /// out[B*S, H*D]. `call` holds what the shape asks for.
  virtual void forward(Stream& stream, const Tensor& qkv, const Tensor& saved, const Tensor& lse,
                       const Tensor& out, const AttentionCall& call = {}) = 0;
  /// Fills lse and out again, bit for bit, from the forward's saved and call. In the place of a
  /// forward: neither may run at the same time as the other.
  virtual void recompute(Stream& stream, const Tensor& saved, const Tensor& lse, const Tensor& out,
                         const AttentionCall& call = {}) = 0;
  /// Computes dqkv[B*S, (H + 2K)*D] from the forward's saved, lse, out and call, and dout[B*S,
  /// H*D].
  virtual void backward(Stream& stream, const Tensor& saved, const Tensor& lse, const Tensor& out,
                        const Tensor& dout, const Tensor& dqkv, const AttentionCall& call = {}) = 0;
};

}  // namespace troupe::tensor
