#pragma once

#include "tensor/cuda/kernels/attention/attention_kernels.h"
#include "tensor/cuda/runtime/kernel_stream.h"
#include "tensor/device/attention.h"

namespace troupe::tensor::cuda {

/// Throws Error{manifest} for heads that no kernel serves.
void check_head_dim(std::int64_t head_dim);
/// The head size rounded up so that a row of a head is a multiple of 16 bytes.
std::int64_t padded_width(DType dtype, std::int64_t head_dim);

/// Attention by kernels of our own (FlashAttention-2, arXiv 2307.08691), for every shape with a
/// head size up to kMostHeadDim: bfloat16 by the tensor cores, float32 by fused multiply-adds. A
/// backward computes the probabilities twice, once for the gradients of keys and values and once
/// for those of queries, so that no two blocks add to the same memory: the bits are the same each
/// time. Compiled for a GPU, and for the emulated grid of the tests.
///
/// `saved` holds q[B,H,S,W], k[B,K,S,W], v[B,K,S,W], where W is the head size rounded up so that a
/// row is a multiple of 16 bytes. It and both pieces of the scratch memory are aligned to 16 bytes
/// at least. The forward scratch holds the tables of the rotation, the backward scratch B x H x S
/// float32. Of documents B is 1 and S the rows of a call; then the tables are by token, computed
/// for each call in the scratch memory of its direction, from frequencies by length.
class KernelAttention final : public Attention {
 public:
  /// `preparation` is a stream of the device on which set_scratch() computes the tables, and waits
  /// for it; it must outlive this object, and set_scratch() must be called by the thread that uses
  /// it. Throws Error for a shape that has no meaning or no kernel.
  KernelAttention(const AttentionShape& shape, KernelStream& preparation);

  /// How `saved` is laid out: by head as above, or by token as qkv is, [T, H + 2K, W].
  enum class Order { by_head, by_token };
  /// Fills saved from qkv, which is all that a forward does before it calls recompute(), for which
  /// the order is by head.
  void save(Stream& stream, const Tensor& qkv, const Tensor& saved, const AttentionCall& call,
            Order order = Order::by_head);
  /// Makes gradients of what was saved gradients of qkv, in place, for backwards of others.
  void rotate_back(Stream& stream, const Tensor& dqkv, const AttentionCall& call);
  /// Clears the rows after the last document of a matrix, of which each has `heads` heads.
  void clear_padding(Stream& stream, const Tensor& x, std::int64_t heads,
                     const AttentionCall& call);

  std::int64_t saved_elements() const override;
  ScratchBytes scratch_bytes() const override;
  void set_scratch(const Scratch& scratch) override;
  void forward(Stream& stream, const Tensor& qkv, const Tensor& saved, const Tensor& lse,
               const Tensor& out, const AttentionCall& call) override;
  void recompute(Stream& stream, const Tensor& saved, const Tensor& lse, const Tensor& out,
                 const AttentionCall& call) override;
  void backward(Stream& stream, const Tensor& saved, const Tensor& lse, const Tensor& out,
                const Tensor& dout, const Tensor& dqkv, const AttentionCall& call) override;

 private:
  /// Tables of a rotation, of cos and sin; null: nothing is rotated.
  struct Tables {
    float* cos = nullptr;
    float* sin = nullptr;
  };

  /// The most tokens of a call.
  std::int64_t tokens() const { return shape_.batch * shape_.seq_len; }
  std::int64_t batch() const { return shape_.documents ? 1 : shape_.batch; }
  /// Lengths of documents with frequencies of their own, or all of them as one, and one for all
  /// shorter ones.
  std::int64_t lengths() const;
  void fill_frequencies();
  /// The tables of a call, in the scratch memory of its direction.
  Tables tables_of(const AttentionCall& call, const Tables& memory, std::int64_t tokens,
                   Stream& stream) const;
  std::int64_t angles() const;  ///< elements of one table; 0 if nothing is rotated
  /// What the kernels of a call are given, still without the tensors of a backward.
  AttentionArguments arguments(const Tensor& saved, const Tensor& lse, const Tensor& out,
                               const AttentionCall& call) const;

  const AttentionShape shape_;
  KernelStream& preparation_;
  const std::int64_t rotary_dim_;  // R; 0: nothing is rotated
  Tables forward_, backward_;      // [S, R/2] each; backward_ only of documents
  float* frequencies_ = nullptr;   // [lengths(), R/2], only of documents
  float* delta_ = nullptr;         // [B,H,S]
};

}  // namespace troupe::tensor::cuda
