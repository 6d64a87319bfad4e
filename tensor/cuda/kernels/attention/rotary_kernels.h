#pragma once

#include <cstdint>

#include "tensor/cuda/kernels/attention/attention_kernels.h"
#include "tensor/cuda/kernels/grid/grid_types.h"
#include "tensor/values/dtype.h"

// Shape letters: B batch, S sequence, H heads, K key-value heads, D head size, R the elements of a
// head that turn, W elements of a row of `saved`.

namespace troupe::tensor::cuda {

/// What a rotation turns by, from tensor/device/rotary.h. Small enough to be a kernel's argument.
struct RotaryFrequencies {
  float inverse[kMostHeadDim / 2];  ///< of which R/2 are in use
  float scaling = 1;                ///< of cos and sin
};
/// Fills cos and sin [S, R/2] of the angles position x frequency, each step rounded to float32,
/// times the scaling.
void launch_rotation_tables(std::int64_t seq_len, std::int64_t rotary_dim,
                            const RotaryFrequencies& frequencies, float* cos, float* sin,
                            cudaStream_t stream);

/// Fills inverse [R/2] with the frequencies.
void launch_frequencies(std::int64_t rotary_dim, const RotaryFrequencies& frequencies,
                        float* inverse, cudaStream_t stream);

/// Where each of so many documents begins, and the end of the last one, and the frequencies of
/// documents by length.
struct DocumentRotation {
  const std::int32_t* starts = nullptr;
  int documents = 0;
  std::int64_t rotary_dim = 0;     ///< R
  const float* inverse = nullptr;  ///< [lengths, R/2]: of documents of up to `first` tokens, of
                                   ///< first + 1 tokens, and so on; the last of all longer ones
  std::int64_t first = 0;
  std::int64_t lengths = 1;
  float scaling = 1;  ///< of cos and sin
};
/// Fills cos and sin [tokens, R/2] of the angles of each token's place in its document. Those of
/// tokens after the last document are of no use.
void launch_document_tables(const DocumentRotation& rotation, std::int64_t tokens, float* cos,
                            float* sin, cudaStream_t stream);

/// What attention saves of its input. Pointers of type void are to elements of one dtype.
struct SavedHeads {
  std::int64_t batch = 0, seq_len = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t saved_width = 0;  ///< W: D rounded up so that a row is a multiple of 16 bytes
  const void* qkv = nullptr;     ///< [B*S, (H + 2K)*D]
  void* saved = nullptr;         ///< q[B,H,S,W], k[B,K,S,W], v[B,K,S,W], aligned to 16 bytes
  bool by_token = false;         ///< whether saved is [B*S, H + 2K, W] instead
  /// Tables [S, R/2] of the rotation (rotate-half) of the first R elements of q and k, by position
  /// or, of documents, by token, B being 1 then; null: none.
  const float* cos = nullptr;
  const float* sin = nullptr;
  std::int64_t rotary_dim = 0;  ///< R
};
/// Fills saved, with zeros from column D on.
void launch_save_heads(DType dtype, const SavedHeads& heads, cudaStream_t stream);

/// Gradients of rotated heads, which rotating back makes gradients of qkv.
struct RotatedGradients {
  std::int64_t batch = 0, seq_len = 0, heads = 0, kv_heads = 0, head_dim = 0;
  void* dqkv = nullptr;  ///< [B*S, (H + 2K)*D] of one dtype
  const float* cos = nullptr;
  const float* sin = nullptr;
  std::int64_t rotary_dim = 0;  ///< R
};
/// Rotates the columns of q and k back in place; those of v stay.
void launch_rotate_back(DType dtype, const RotatedGradients& gradients, cudaStream_t stream);

}  // namespace troupe::tensor::cuda
