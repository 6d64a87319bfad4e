#pragma once

#include <vector>

#include "tensor/cpu/attention/attention_heads.h"
#include "tensor/cpu/attention/attention_scores.h"
#include "tensor/cpu/attention/attention_worker.h"
#include "tensor/device/attention.h"

namespace troupe::tensor {

/// Attention as one job per (sequence, key-value head), a document being a sequence too. A job runs
/// in one thread, so that what it reads again stays in that core's cache. `saved` holds for each
/// key-value head of each sequence, or of all documents together: q[S, H/K, D] and k[S, D], rotated
/// if the shape says so, v[S, D], where S is then B*S.
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
  /// A key-value head of one sequence.
  struct Job {
    std::int64_t kv_head = 0;
    std::int64_t batch = 0;  ///< of a sequence; 0 for a document
    std::int64_t first = 0;  ///< its first row among those of the batch
    std::int64_t length = 0;
    std::int64_t rows = 0;  ///< of the batch: all of a call with documents
  };

  /// Calls body(worker, job) for the jobs of a call with so many rows.
  template <typename Body>
  void for_each_job(std::vector<AttentionWorker>& workers, const AttentionCall& call,
                    std::int64_t rows, const Body& body) const;
  /// Clears the rows of x after the last document.
  void clear_padding(const AttentionCall& call, const Tensor& x, std::int64_t rows) const;
  /// Fills a job's part of saved.
  void save_job(AttentionWorker& worker, const Job& job, const Tensor& qkv,
                const Tensor& saved) const;
  /// Attention from saved to lse and out.
  void core_job(AttentionWorker& worker, const Job& job, const Tensor& saved, const Tensor& lse,
                const Tensor& out, const AttentionCall& call) const;
  void backward_job(AttentionWorker& worker, const Job& job, const Tensor& saved, const Tensor& lse,
                    const Tensor& out, const Tensor& dout, const Tensor& dqkv,
                    const AttentionCall& call) const;

  /// Scores as the softmax takes them, from the products of queries and keys, but for the factor
  /// that is returned.
  float finish_scores(const QueryBlock& block, const MaskRows& mask, float* scores) const;
  /// The tables of a job's rotation. A document may be so long that it has its own, which are
  /// computed then.
  Rotation rotation_for(AttentionWorker& worker, const Job& job) const;
  /// to = from, rotated if the shape says so, or rotated back.
  void place_heads(const QueryBlock& block, const Rotation& rotation, Direction direction,
                   const HeadRows& from, const HeadRows& to) const;

  std::int64_t group() const { return shape_.heads / shape_.kv_heads; }
  Heads heads_of_qkv(const Tensor& qkv, const Job& job) const;
  Heads heads_of_saved(const Tensor& saved, const Job& job) const;
  HeadRows heads_of_out(const Tensor& out, const Job& job) const;
  float* lse_of(const Tensor& lse, const Job& job) const;
  MaskRows mask_of(const AttentionCall& call, const Job& job) const;
  ScoreDropout dropout_of(const AttentionCall& call, const Job& job) const;
  /// The positions of a job's sequence, each with so many heads.
  QueryBlock all_positions(const Job& job, std::int64_t heads) const;
  std::size_t angles() const;  ///< elements of one of the tables; 0 if nothing is rotated

  const AttentionShape shape_;
  const float scale_;
  const std::int64_t rotary_dim_;  // R, 0 if nothing is rotated
  float* rotation_ = nullptr;      // cos[S, R/2], then sin[S, R/2]
  std::vector<AttentionWorker> forward_workers_, backward_workers_;  // one per thread each
};

}  // namespace troupe::tensor
