#pragma once

#include <vector>

#include "tensor/attention.h"
#include "tensor/cpu/attention_kernels.h"
#include "tensor/cpu/product.h"

namespace troupe::tensor {

/// One job per (sequence, key-value head); a job runs in one thread, so that what it reads again stays in that core's
/// cache. `saved` holds for each job: q[S, H/K, D] rotated, k[S, D] rotated, v[S, D].
class CpuAttention final : public Attention {
 public:
  CpuAttention(Device& device, const AttentionShape& shape, int threads);

  std::int64_t saved_elements() const override;
  void forward(Stream& stream, const Tensor& qkv, const Tensor& saved, const Tensor& lse,
               const Tensor& out) override;
  void backward(Stream& stream, const Tensor& saved, const Tensor& lse, const Tensor& out,
                const Tensor& dout, const Tensor& dqkv) override;

 private:
  /// The products of one query block: R = rows, N = columns.
  struct BlockProducts {
    Product scores;         // [R, D] x [N, D]^T
    Product values;         // [R, N] x [N, D]
    Product keys_gradient;  // [R, N]^T x [R, D], added to what is there
  };
  /// What one thread works with.
  struct Worker {
    std::vector<BlockProducts> blocks;
    Buffer memory;
    float* scores;         // [R, N]
    float* dscores;        // [R, N]
    void* probabilities;   // [R, N] of dtype; the scores' memory where that is float32
    void* dscores_act;     // [R, N] of dtype; likewise
    float* values;         // [R, D]
    void* gradient;        // [R, D] of dtype
    float* row_factors;    // [R]
    float* keys_gradient;  // [S, D]
    float* values_gradient;
  };
  /// Views of the caller's tensors for one job; columns of a position lie `stride` apart.
  struct Heads {
    HeadRows q, k, v;
  };

  Worker make_worker(Device& device) const;
  template <typename Body>
  void for_each_job(const Body& body);
  void forward_job(Worker& worker, std::int64_t job, const Tensor& qkv, const Tensor& saved,
                   const Tensor& lse, const Tensor& out) const;
  void backward_job(Worker& worker, std::int64_t job, const Tensor& saved, const Tensor& lse,
                    const Tensor& out, const Tensor& dout, const Tensor& dqkv) const;

  std::int64_t num_jobs() const { return shape_.batch * shape_.kv_heads; }
  std::int64_t group() const { return shape_.heads / shape_.kv_heads; }
  QueryBlock block_at(std::int64_t index) const;
  Heads heads_of_qkv(const Tensor& qkv, std::int64_t job) const;
  Heads heads_of_saved(const Tensor& saved, std::int64_t job) const;
  HeadRows heads_of_out(const Tensor& out, std::int64_t job) const;
  Rotation rotation() const;

  const AttentionShape shape_;
  const int threads_;
  const float scale_;
  Buffer rotation_;  // cos[S, D/2], then sin[S, D/2]
  std::vector<Worker> workers_;
};

}  // namespace troupe::tensor
