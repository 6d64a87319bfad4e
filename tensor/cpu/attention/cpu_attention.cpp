#include "tensor/cpu/attention/cpu_attention.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "tensor/errors/error.h"

namespace troupe::tensor {
namespace {

/// The angles of so many positions of a sequence of `length` as PyTorch computes them: frequency
/// and angle rounded to float32. `frequencies` [R/2] is scratch memory.
void fill_rotation(const Rotary& rotary, std::int64_t length, std::int64_t positions,
                   std::span<float> frequencies, float* cos, float* sin) {
  inverse_frequencies(rotary, length, frequencies);
  const float scaling = attention_scaling(rotary);
  for (std::int64_t s = 0; s < positions; ++s) {
    for (const float frequency : frequencies) {
      const double angle = static_cast<float>(s) * frequency;
      *cos++ = static_cast<float>(std::cos(angle)) * scaling;
      *sin++ = static_cast<float>(std::sin(angle)) * scaling;
    }
  }
}

std::size_t bytes_of(const std::vector<AttentionWorker>& workers) {
  return workers.size() * workers.front().scratch_bytes();
}

/// Divides `scratch` among the workers and returns where the rest of it begins.
std::byte* divide(void* scratch, std::vector<AttentionWorker>& workers) {
  auto* next = static_cast<std::byte*>(scratch);
  for (AttentionWorker& worker : workers) {
    worker.set_scratch(next);
    next += worker.scratch_bytes();
  }
  return next;
}

}  // namespace

CpuAttention::CpuAttention(const AttentionShape& shape, int threads)
    : shape_(check(shape)),
      scale_(score_scale(shape.scale, shape.head_dim)),
      rotary_dim_(shape.rotary ? tensor::rotary_dim(*shape.rotary, shape.head_dim) : 0) {
  const std::int64_t jobs = shape.batch * (shape.documents ? shape.seq_len : 1) * shape.kv_heads;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(threads, jobs); ++i) {
    forward_workers_.emplace_back(shape, AttentionWorker::Use::forward);
    backward_workers_.emplace_back(shape, AttentionWorker::Use::backward);
  }
}

ScratchBytes CpuAttention::scratch_bytes() const {
  return {.forward = bytes_of(forward_workers_) + 2 * angles() * sizeof(float),
          .backward = bytes_of(backward_workers_)};
}

void CpuAttention::set_scratch(const Scratch& scratch) {
  rotation_ = reinterpret_cast<float*>(divide(scratch.forward, forward_workers_));
  if (shape_.rotary) {
    std::vector<float> frequencies(static_cast<std::size_t>(rotary_dim_ / 2));
    // Of documents this is the rotation of those that are not too long for it.
    const std::int64_t length = shape_.documents ? 1 : shape_.seq_len;
    fill_rotation(*shape_.rotary, length, shape_.seq_len, frequencies, rotation_,
                  rotation_ + angles());
  }
  if (scratch.backward) divide(scratch.backward, backward_workers_);
}

std::int64_t CpuAttention::saved_elements() const {
  return shape_.batch * shape_.seq_len * shape_.columns();
}

template <typename Body>
void CpuAttention::for_each_job(std::vector<AttentionWorker>& workers, const AttentionCall& call,
                                std::int64_t rows, const Body& body) const {
  const auto threads = static_cast<int>(workers.size());
  const std::int64_t kv_heads = shape_.kv_heads;
  if (!shape_.documents) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (std::int64_t job = 0; job < shape_.batch * kv_heads; ++job)
      body(workers[static_cast<std::size_t>(omp_get_thread_num())], Job{.kv_head = job % kv_heads,
                                                                        .batch = job / kv_heads,
                                                                        .length = shape_.seq_len,
                                                                        .rows = shape_.seq_len});
    return;
  }
  const auto* starts = call.documents.as<std::int32_t>();
  const std::int64_t documents = call.documents.num_elements() - 1;
  // Threads take jobs as they finish others, because documents differ in length.
#pragma omp parallel for num_threads(threads) schedule(dynamic)
  for (std::int64_t job = 0; job < documents * kv_heads; ++job) {
    const std::int32_t* start = starts + job / kv_heads;
    body(workers[static_cast<std::size_t>(omp_get_thread_num())], Job{.kv_head = job % kv_heads,
                                                                      .first = start[0],
                                                                      .length = start[1] - start[0],
                                                                      .rows = rows});
  }
}

void CpuAttention::clear_padding(const AttentionCall& call, const Tensor& x,
                                 std::int64_t rows) const {
  if (!shape_.documents) return;
  const std::int64_t end = call.documents.as<std::int32_t>()[call.documents.num_elements() - 1];
  const auto row = x.num_bytes() / static_cast<std::size_t>(rows);
  std::memset(x.as<std::byte>() + static_cast<std::size_t>(end) * row, 0,
              static_cast<std::size_t>(rows - end) * row);
}

void CpuAttention::forward(Stream&, const Tensor& qkv, const Tensor& saved, const Tensor& lse,
                           const Tensor& out, const AttentionCall& call) {
  check(shape_, call);
  const std::int64_t rows = rows_of(shape_, out, shape_.heads * shape_.head_dim);
  TROUPE_ASSERT(rows_of(shape_, qkv, shape_.columns()) == rows);
  TROUPE_ASSERT(saved.dtype == shape_.dtype && saved.num_elements() == saved_elements());
  TROUPE_ASSERT(lse.dtype == DType::f32);
  for_each_job(forward_workers_, call, rows, [&](AttentionWorker& worker, const Job& job) {
    save_job(worker, job, qkv, saved);
    core_job(worker, job, saved, lse, out, call);
  });
  clear_padding(call, out, rows);
}

void CpuAttention::recompute(Stream&, const Tensor& saved, const Tensor& lse, const Tensor& out,
                             const AttentionCall& call) {
  check(shape_, call);
  const std::int64_t rows = rows_of(shape_, out, shape_.heads * shape_.head_dim);
  TROUPE_ASSERT(saved.dtype == shape_.dtype && saved.num_elements() == saved_elements());
  TROUPE_ASSERT(lse.dtype == DType::f32);
  for_each_job(forward_workers_, call, rows, [&](AttentionWorker& worker, const Job& job) {
    core_job(worker, job, saved, lse, out, call);
  });
  clear_padding(call, out, rows);
}

void CpuAttention::backward(Stream&, const Tensor& saved, const Tensor& lse, const Tensor& out,
                            const Tensor& dout, const Tensor& dqkv, const AttentionCall& call) {
  check(shape_, call);
  const std::int64_t rows = rows_of(shape_, out, shape_.heads * shape_.head_dim);
  TROUPE_ASSERT(rows_of(shape_, dqkv, shape_.columns()) == rows);
  TROUPE_ASSERT(saved.dtype == shape_.dtype && saved.num_elements() == saved_elements());
  TROUPE_ASSERT(rows_of(shape_, dout, shape_.heads * shape_.head_dim) == rows);
  for_each_job(backward_workers_, call, rows, [&](AttentionWorker& worker, const Job& job) {
    backward_job(worker, job, saved, lse, out, dout, dqkv, call);
  });
  clear_padding(call, dqkv, rows);
}

Rotation CpuAttention::rotation_for(AttentionWorker& worker, const Job& job) const {
  if (!worker.cos || job.length <= shape_.rotary->original_max_position_embeddings)
    return {rotation_, rotation_ + angles(), rotary_dim_};
  const std::span frequencies(worker.frequencies, static_cast<std::size_t>(rotary_dim_ / 2));
  fill_rotation(*shape_.rotary, job.length, job.length, frequencies, worker.cos, worker.sin);
  return {worker.cos, worker.sin, rotary_dim_};
}

void CpuAttention::save_job(AttentionWorker& worker, const Job& job, const Tensor& qkv,
                            const Tensor& saved) const {
  const Heads from = heads_of_qkv(qkv, job), to = heads_of_saved(saved, job);
  const QueryBlock queries = all_positions(job, group()), keys = all_positions(job, 1);
  const Rotation rotation = rotation_for(worker, job);
  place_heads(queries, rotation, Direction::forward, from.q, to.q);
  place_heads(keys, rotation, Direction::forward, from.k, to.k);
  copy_heads(keys, from.v, to.v);
}

void CpuAttention::core_job(AttentionWorker& worker, const Job& job, const Tensor& saved,
                            const Tensor& lse, const Tensor& out, const AttentionCall& call) const {
  const Heads from = heads_of_saved(saved, job);
  const HeadRows out_heads = heads_of_out(out, job);
  const MaskRows mask = mask_of(call, job);
  const ScoreDropout dropout = dropout_of(call, job);
  for (std::int64_t i = 0; i < worker.num_blocks(job.length); ++i) {
    const QueryBlock rows = worker.block(i, job.length);
    worker.multiply_keys(i, rows, from.q.from_position(rows.first).data,
                         from.k.from_position(rows.first_key).data, worker.scores);
    softmax_block(rows, {.scale = finish_scores(rows, mask, worker.scores),
                         .scores = worker.scores,
                         .dtype = shape_.dtype,
                         .probabilities = worker.probabilities,
                         .inverse_sum = worker.row_factors,
                         .lse = lse_of(lse, job),
                         .lse_stride = job.rows});
    if (dropout.drops())
      drop_block(rows, dropout, shape_.dtype, worker.probabilities, worker.row_factors);
    worker.multiply_values(i, rows, worker.probabilities, from.v.from_position(rows.first_key).data,
                           worker.values);
    scale_heads(rows, worker.values, worker.row_factors, out_heads.from_position(rows.first));
  }
}

float CpuAttention::finish_scores(const QueryBlock& block, const MaskRows& mask,
                                  float* scores) const {
  if (mask.values) mask_block(block, scale_, mask, scores);
  if (shape_.cap > 0) cap_block(block, scale_, shape_.cap, scores);
  return mask.values || shape_.cap > 0 ? 1.0f : scale_;
}

void CpuAttention::backward_job(AttentionWorker& worker, const Job& job, const Tensor& saved,
                                const Tensor& lse, const Tensor& out, const Tensor& dout,
                                const Tensor& dqkv, const AttentionCall& call) const {
  const Heads from = heads_of_saved(saved, job), to = heads_of_qkv(dqkv, job);
  const HeadRows out_heads = heads_of_out(out, job), dout_heads = heads_of_out(dout, job);
  const MaskRows mask = mask_of(call, job);
  const ScoreDropout dropout = dropout_of(call, job);
  const Rotation rotation = rotation_for(worker, job);
  const std::int64_t elements = job.length * shape_.head_dim;
  std::fill_n(worker.keys_gradient, elements, 0.0f);
  std::fill_n(worker.values_gradient, elements, 0.0f);
  for (std::int64_t i = 0; i < worker.num_blocks(job.length); ++i) {
    const QueryBlock rows = worker.block(i, job.length);
    const void* q = from.q.from_position(rows.first).data;
    const void* k = from.k.from_position(rows.first_key).data;
    const void* v = from.v.from_position(rows.first_key).data;
    const std::int64_t first = rows.first_key * shape_.head_dim;
    gather_gradient(rows, dout_heads.from_position(rows.first), out_heads.from_position(rows.first),
                    worker.gradient, worker.row_factors);
    worker.multiply_keys(i, rows, q, k, worker.scores);
    const float score_scale = finish_scores(rows, mask, worker.scores);
    worker.multiply_keys(i, rows, worker.gradient, v, worker.dprobabilities);
    score_gradient_block(rows, {.scale = scale_,
                                .score_scale = score_scale,
                                .cap = shape_.cap,
                                .scores = worker.scores,
                                .dprobabilities = worker.dprobabilities,
                                .delta = worker.row_factors,
                                .lse = lse_of(lse, job),
                                .lse_stride = job.rows,
                                .dtype = shape_.dtype,
                                .probabilities = worker.probabilities,
                                .dscores = worker.dscores,
                                .dropout = dropout});
    worker.add_to_keys(i, rows, worker.probabilities, worker.gradient,
                       worker.values_gradient + first);
    worker.add_to_keys(i, rows, worker.dscores, q, worker.keys_gradient + first);
    worker.multiply_values(i, rows, worker.dscores, k, worker.values);
    place_heads(rows, rotation, Direction::backward,
                {worker.values, DType::f32, group() * shape_.head_dim},
                to.q.from_position(rows.first));
  }
  const QueryBlock keys = all_positions(job, 1);
  place_heads(keys, rotation, Direction::backward,
              {worker.keys_gradient, DType::f32, shape_.head_dim}, to.k);
  copy_heads(keys, {worker.values_gradient, DType::f32, shape_.head_dim}, to.v);
}

void CpuAttention::place_heads(const QueryBlock& block, const Rotation& rotation,
                               Direction direction, const HeadRows& from,
                               const HeadRows& to) const {
  if (!shape_.rotary) return copy_heads(block, from, to);
  rotate_heads(block, rotation, direction, from, to);
}

CpuAttention::Heads CpuAttention::heads_of_qkv(const Tensor& qkv, const Job& job) const {
  const std::int64_t h = shape_.heads, k = shape_.kv_heads, d = shape_.head_dim;
  const HeadRows rows = HeadRows{qkv.data, shape_.dtype, shape_.columns()}.from_position(
      job.batch * job.rows + job.first);
  return {.q = rows.from_element(job.kv_head * group() * d),
          .k = rows.from_element((h + job.kv_head) * d),
          .v = rows.from_element((h + k + job.kv_head) * d)};
}

CpuAttention::Heads CpuAttention::heads_of_saved(const Tensor& saved, const Job& job) const {
  const std::int64_t elements = job.rows * shape_.head_dim;  // of one head
  const std::int64_t start = (job.batch * shape_.kv_heads + job.kv_head) * (group() + 2) * elements;
  const HeadRows keys = HeadRows{saved.data, shape_.dtype, shape_.head_dim};
  const HeadRows queries = HeadRows{saved.data, shape_.dtype, group() * shape_.head_dim};
  return {.q = queries.from_element(start).from_position(job.first),
          .k = keys.from_element(start + group() * elements).from_position(job.first),
          .v = keys.from_element(start + (group() + 1) * elements).from_position(job.first)};
}

HeadRows CpuAttention::heads_of_out(const Tensor& out, const Job& job) const {
  return HeadRows{out.data, shape_.dtype, shape_.heads * shape_.head_dim}
      .from_position(job.batch * job.rows + job.first)
      .from_element(job.kv_head * group() * shape_.head_dim);
}

float* CpuAttention::lse_of(const Tensor& lse, const Job& job) const {
  const std::int64_t head = job.batch * shape_.heads + job.kv_head * group();
  return lse.as<float>() + head * job.rows + job.first;
}

MaskRows CpuAttention::mask_of(const AttentionCall& call, const Job& job) const {
  if (shape_.mask == Mask::none) return {};
  if (shape_.mask == Mask::pairs) return {call.mask.as<float>(), shape_.seq_len};
  return {call.mask.as<float>() + job.batch * shape_.seq_len, 0};
}

ScoreDropout CpuAttention::dropout_of(const AttentionCall& call, const Job& job) const {
  const std::int64_t head = shape_.first_head + job.kv_head * group();
  const std::int64_t sequences = call.sequences > 0 ? call.sequences : shape_.batch;
  const std::int64_t row = job.batch * shape_.seq_len + job.first;
  const std::int64_t gaps = call.run > 0 ? row / call.run * call.gap : 0;
  const std::int64_t first = (head * sequences + call.first_sequence) * shape_.seq_len + row + gaps;
  const auto s = static_cast<std::uint64_t>(shape_.seq_len);
  return {.dropout = call.dropout,
          .first = static_cast<std::uint64_t>(first) * s,
          .head_stride = static_cast<std::uint64_t>(sequences) * s * s,
          .position_stride = s};
}

QueryBlock CpuAttention::all_positions(const Job& job, std::int64_t heads) const {
  return {.positions = job.length, .group = heads, .head_dim = shape_.head_dim};
}

std::size_t CpuAttention::angles() const {
  return static_cast<std::size_t>(shape_.seq_len * rotary_dim_ / 2);
}

}  // namespace troupe::tensor
