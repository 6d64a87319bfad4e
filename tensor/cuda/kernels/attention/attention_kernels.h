#pragma once

#include <cstdint>

#include "tensor/cuda/kernels/grid/grid_types.h"
#include "tensor/values/dtype.h"

// Launches of the attention kernels. Shape letters: B batch, S sequence, H heads, K key-value
// heads, D head size, W elements of a row of `saved`.

namespace troupe::tensor::cuda {

/// The largest head size that there are kernels for.
inline constexpr std::int64_t kMostHeadDim = 256;

/// Dropout of probabilities: the one of head h, the query of token t and the key j of its sequence
/// has the index first + h * head_stride + (t + t / run * gap) * token_stride + j (run 0: without
/// gaps), and is dropped if its word is below threshold.
struct ProbabilityDropout {
  std::uint64_t key = 0;
  std::uint64_t first = 0;
  std::uint64_t head_stride = 0;
  std::uint64_t token_stride = 0;
  int run = 0, gap = 0;         ///< tokens
  std::uint32_t threshold = 0;  ///< 0: nothing is dropped
  float scale = 1;              ///< of what is kept
};

/// What the kernels of one call are given. Pointers of type void are to elements of one dtype,
/// float32 or bfloat16; a kernel reads those that its launch function names.
struct AttentionArguments {
  int batch = 0, seq_len = 0, heads = 0, kv_heads = 0, head_dim = 0;
  /// Where each of so many documents begins among the S tokens of the one batch, and the end of the
  /// last one. None: each batch is one sequence.
  const std::int32_t* starts = nullptr;
  int documents = 0;
  int saved_width = 0;  ///< W: D rounded up so that a row is a multiple of 16 bytes
  bool causal = true;
  int window = 0;   ///< so many keys at most that a query sees, its own the last; 0: all
  float scale = 1;  ///< of the products of queries and keys
  float cap = 0;    ///< c: scaled products s become c tanh(s / c); 0: they stay
  /// What is added to the score of sequence b, query i and key j is mask[b * mask_batch_stride + i
  /// * mask_query_stride + j]; null: nothing.
  const float* mask = nullptr;
  std::int64_t mask_batch_stride = 0, mask_query_stride = 0;
  ProbabilityDropout dropout;
  /// Rows q[B,H,S,W], then k[B,K,S,W], then v[B,K,S,W], aligned to 16 bytes; q and k rotated if so
  /// asked; zeros from column D on.
  const void* saved = nullptr;
  float* lse = nullptr;        ///< [B,H,S]
  void* out = nullptr;         ///< [B*S, H*D]
  const void* dout = nullptr;  ///< [B*S, H*D]
  float* delta = nullptr;      ///< [B,H,S], sums over D of dout * out
  void* dqkv = nullptr;        ///< [B*S, (H + 2K)*D]
  /// Tables of the rotation [S, R/2] by position, or of documents by token, whose inverse the
  /// gradients of q and k get in the first R elements of a head; null: none.
  const float* cos = nullptr;
  const float* sin = nullptr;
  int rotary_dim = 0;  ///< R

  /// Whether kernels for windows and caps compute the scores, which need more registers.
  bool limited() const { return window > 0 || cap > 0; }
};

/// Clears the tokens after the last document in x[S, heads * D], which is of `dtype`.
void launch_clear_padding(DType dtype, const AttentionArguments& arguments, void* x,
                          std::int64_t heads, cudaStream_t stream);
/// Fills lse and out from saved.
void launch_attention_forward(DType dtype, const AttentionArguments& arguments,
                              cudaStream_t stream);
/// Fills delta from dout and out.
void launch_attention_delta(DType dtype, const AttentionArguments& arguments, cudaStream_t stream);
/// Fills the columns of k and v of dqkv from saved, lse, dout and delta.
void launch_attention_key_gradients(DType dtype, const AttentionArguments& arguments,
                                    cudaStream_t stream);
/// Fills the columns of q of dqkv from saved, lse, dout and delta.
void launch_attention_query_gradients(DType dtype, const AttentionArguments& arguments,
                                      cudaStream_t stream);

}  // namespace troupe::tensor::cuda
