#pragma once

#include <cstddef>
#include <optional>

#include "tensor/device/device.h"
#include "tensor/device/rotary.h"
#include "tensor/values/random.h"

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
  std::int64_t head_dim = 0;  // D, even if rotary turns all of it
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
  /// So many keys at most that a query of a causal shape sees, itself and those before it, in a
  /// document by its own positions; 0: all of them. What no query sees is not computed.
  std::int64_t window = 0;
  float scale = 0;  // of the products of queries and keys; 0: 1/sqrt(D)
  float cap = 0;    // c: scaled scores s become c * tanh(s / c) (arXiv 2408.00118); 0: they stay.
                    // Without a mask

  /// Whether the window hides keys that a query would see without it.
  bool hides_keys() const { return window > 0 && window < seq_len; }
  /// The columns of qkv: those of query heads, key heads and value heads.
  std::int64_t columns() const { return (heads + 2 * kv_heads) * head_dim; }
};
/// What the products of queries and keys are multiplied by: scale, or 1/sqrt(D) if it is 0.
float score_scale(float scale, std::int64_t head_dim);
/// The shape. Throws Error for one that has no meaning.
const AttentionShape& check(const AttentionShape& shape);
/// The rows of a call by one of its tensors, which has so many columns. Asserts that the shape
/// allows them.
std::int64_t rows_of(const AttentionShape& shape, const Tensor& x, std::int64_t columns);

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
  // So many rows follow each other there, then so many of others stand between (below zero: the
  // next ones begin so many before the end of these); 0: all do. A run begins a sequence, or a
  // document.
  std::int64_t run = 0;
  std::int64_t gap = 0;
};
/// Asserts that `call` holds what the shape asks for.
void check(const AttentionShape& shape, const AttentionCall& call);

/// Rotary embedding (rotate-half, tables in float32, scaled as the type says) and grouped-query
/// attention, for one shape; one object serves every layer. Works in blocks of query rows: never
/// holds S x S scores of a head (as FlashAttention, arXiv 2205.14135; the backward pass recomputes
/// the probabilities from the log-sum-exp). A query that sees no key gives
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

struct CachedAttentionShape {
  std::int64_t rows = 0;       ///< T, the most new tokens of a call
  std::int64_t sequences = 0;  ///< B that a cache has room for
  std::int64_t capacity = 0;   ///< N, tokens of each sequence that it has room for
  std::int64_t heads = 0;      ///< H
  std::int64_t kv_heads = 0;   ///< K, divides H; each serves H/K consecutive query heads
  std::int64_t head_dim = 0;   ///< D
  DType dtype = DType::f32;
  std::int64_t window = 0;  ///< as AttentionShape's, and so are the next two
  float scale = 0;
  float cap = 0;

  std::int64_t columns() const { return (heads + 2 * kv_heads) * head_dim; }  ///< of qkv
};
/// The shape. Throws Error for one that has no meaning.
const CachedAttentionShape& check(const CachedAttentionShape& shape);

/// The new tokens of a call, by row, at most T of them.
struct CachedTokens {
  Tensor sequences;  ///< [T] int32: below B; -1: no token, the row's result is zeros
  Tensor positions;  ///< [T] int32: its place in the sequence, below N
  /// [T, R/2] float32, R at most D: cosines and sines of the angles that a row's pairs of queries
  /// and of keys turn (rotate-half, arXiv 2104.09864) in the first R elements of each head; the
  /// others stay. Empty: nothing is rotated.
  Tensor cos, sin;
};
/// The number of tokens. Asserts that the shape allows so many, and that qkv and out are of as
/// many.
std::int64_t check(const CachedAttentionShape& shape, const CachedTokens& tokens, const Tensor& qkv,
                   const Tensor& out);

/// Grouped-query attention of new tokens over the tokens of their sequences so far: a forward
/// without a backward, for inference. Keys and values of earlier tokens lie in a cache, one for
/// each layer; one object serves all layers. A whole prompt, a piece of one and single tokens of
/// many sequences are all rows of a call, in any mixture. Rows of one sequence that follow each
/// other and their positions are computed together.
///
/// A row's result does not depend on the rows of other sequences, bit for bit. Neither does it
/// depend on what lies in the cache beyond the row's position, so a sequence is forgotten by
/// beginning another one at position 0.
class CachedAttention {
 public:
  virtual ~CachedAttention() = default;
  /// Elements (of dtype) of the cache of one layer: B sequences of N keys and values in a layout of
  /// the device's own.
  virtual std::int64_t cache_elements() const = 0;
  /// Memory that calls work in, on a 256-byte boundary, given once, before the first call. Nothing
  /// in it outlasts a call.
  virtual std::size_t scratch_bytes() const = 0;
  virtual void set_scratch(void* scratch) = 0;
  /// qkv[T, (H + 2K)*D]: columns q heads, k heads, v heads. Puts the keys, rotated, and the values
  /// of all rows into the cache, then fills out[T, H*D]: each row sees its sequence's positions up
  /// to its own, all of which this call or an earlier one has put there.
  virtual void forward(Stream& stream, const Tensor& qkv, const CachedTokens& tokens,
                       const Tensor& cache, const Tensor& out) = 0;
};

}  // namespace troupe::tensor
