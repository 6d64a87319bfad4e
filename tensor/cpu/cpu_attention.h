#pragma once

#include <vector>

#include "tensor/attention.h"
#include "tensor/cpu/attention_heads.h"
#include "tensor/cpu/attention_scores.h"
#include "tensor/cpu/attention_worker.h"

namespace troupe::tensor {

/// Attention as one job per (sequence, key-value head). A job runs in one thread, so that what it
/// reads again stays in that core's cache. `saved` holds for each job: q[S, H/K, D] and k[S, D],
/// rotated if the shape says so, v[S, D].
class CpuAttention final : public Attention {
 public:
  CpuAttention(const AttentionShape& shape, int threads);

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
  /// One job's part of a tensor that holds queries, keys and values.
  struct Heads {
    HeadRows q, k, v;
  };

  template <typename Body>
  void for_each_job(std::vector<AttentionWorker>& workers, const Body& body) const;
  /// Fills a job's part of saved.
  void save_job(std::int64_t job, const Tensor& qkv, const Tensor& saved) const;
  /// Attention from saved to lse and out.
  void core_job(AttentionWorker& worker, std::int64_t job, const Tensor& saved, const Tensor& lse,
                const Tensor& out, const AttentionCall& call) const;
  void backward_job(AttentionWorker& worker, std::int64_t job, const Tensor& saved,
                    const Tensor& lse, const Tensor& out, const Tensor& dout, const Tensor& dqkv,
                    const AttentionCall& call) const;

  /// to = from, rotated if the shape says so, or rotated back.
  void place_heads(const QueryBlock& block, Direction direction, const HeadRows& from,
                   const HeadRows& to) const;

  std::int64_t group() const { return shape_.heads / shape_.kv_heads; }
  Heads heads_of_qkv(const Tensor& qkv, std::int64_t job) const;
  Heads heads_of_saved(const Tensor& saved, std::int64_t job) const;
  HeadRows heads_of_out(const Tensor& out, std::int64_t job) const;
  MaskRows mask_of(const AttentionCall& call, std::int64_t job) const;
  ScoreDropout dropout_of(const AttentionCall& call, std::int64_t job) const;
  /// The positions of a sequence, each with so many heads.
  QueryBlock all_positions(std::int64_t heads) const;
  std::size_t angles() const;  ///< elements of one of the tables; 0 if nothing is rotated

  const AttentionShape shape_;
  const float scale_;
  float* rotation_ = nullptr;  // cos[S, D/2], then sin[S, D/2]
  std::vector<AttentionWorker> forward_workers_, backward_workers_;  // one per thread each
};

}  // namespace troupe::tensor
