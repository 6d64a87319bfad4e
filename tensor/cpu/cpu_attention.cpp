#include "tensor/cpu/cpu_attention.h"

#include <omp.h>

#include <algorithm>
#include <cmath>

#include "tensor/error.h"

namespace troupe::tensor {
namespace {

AttentionShape checked(const AttentionShape& shape) {
  check(shape);
  return shape;
}

/// The angles of all positions as PyTorch computes them: frequency and angle rounded to float32.
void fill_rotation(const AttentionShape& shape, float* cos, float* sin) {
  const std::int64_t half = shape.head_dim / 2;
  std::vector<float> frequencies(static_cast<std::size_t>(half));
  inverse_frequencies(*shape.rotary, shape.seq_len, frequencies);
  const float scaling = attention_scaling(*shape.rotary);
  for (std::int64_t s = 0; s < shape.seq_len; ++s) {
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
    : shape_(checked(shape)),
      scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)))) {
  const auto workers = std::min<std::int64_t>(threads, shape.batch * shape.kv_heads);
  for (std::int64_t i = 0; i < workers; ++i) {
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
  if (shape_.rotary) fill_rotation(shape_, rotation_, rotation_ + angles());
  if (scratch.backward) divide(scratch.backward, backward_workers_);
}

std::int64_t CpuAttention::saved_elements() const {
  return shape_.batch * shape_.seq_len * (shape_.heads + 2 * shape_.kv_heads) * shape_.head_dim;
}

template <typename Body>
void CpuAttention::for_each_job(std::vector<AttentionWorker>& workers, const Body& body) const {
  const std::int64_t jobs = shape_.batch * shape_.kv_heads;
  const auto threads = static_cast<int>(workers.size());
#pragma omp parallel num_threads(threads)
  {
    AttentionWorker& worker = workers[static_cast<std::size_t>(omp_get_thread_num())];
#pragma omp for schedule(static)
    for (std::int64_t job = 0; job < jobs; ++job) body(worker, job);
  }
}

void CpuAttention::forward(Stream&, const Tensor& qkv, const Tensor& saved, const Tensor& lse,
                           const Tensor& out, const AttentionCall& call) {
  check(shape_, call);
  TROUPE_ASSERT(qkv.dtype == shape_.dtype && qkv.num_elements() == saved_elements());
  TROUPE_ASSERT(saved.dtype == shape_.dtype && saved.num_elements() == saved_elements());
  TROUPE_ASSERT(out.dtype == shape_.dtype && lse.dtype == DType::f32);
  for_each_job(forward_workers_, [&](AttentionWorker& worker, std::int64_t job) {
    save_job(job, qkv, saved);
    core_job(worker, job, saved, lse, out, call);
  });
}

void CpuAttention::recompute(Stream&, const Tensor& saved, const Tensor& lse, const Tensor& out,
                             const AttentionCall& call) {
  check(shape_, call);
  TROUPE_ASSERT(saved.dtype == shape_.dtype && saved.num_elements() == saved_elements());
  TROUPE_ASSERT(out.dtype == shape_.dtype && lse.dtype == DType::f32);
  for_each_job(forward_workers_, [&](AttentionWorker& worker, std::int64_t job) {
    core_job(worker, job, saved, lse, out, call);
  });
}

void CpuAttention::backward(Stream&, const Tensor& saved, const Tensor& lse, const Tensor& out,
                            const Tensor& dout, const Tensor& dqkv, const AttentionCall& call) {
  check(shape_, call);
  TROUPE_ASSERT(dqkv.dtype == shape_.dtype && dqkv.num_elements() == saved_elements());
  TROUPE_ASSERT(saved.dtype == shape_.dtype && saved.num_elements() == saved_elements());
  TROUPE_ASSERT(out.dtype == shape_.dtype && dout.dtype == shape_.dtype);
  for_each_job(backward_workers_, [&](AttentionWorker& worker, std::int64_t job) {
    backward_job(worker, job, saved, lse, out, dout, dqkv, call);
  });
}

void CpuAttention::save_job(std::int64_t job, const Tensor& qkv, const Tensor& saved) const {
  const Heads from = heads_of_qkv(qkv, job), to = heads_of_saved(saved, job);
  const QueryBlock queries = all_positions(group()), keys = all_positions(1);
  place_heads(queries, Direction::forward, from.q, to.q);
  place_heads(keys, Direction::forward, from.k, to.k);
  copy_heads(keys, from.v, to.v);
}

void CpuAttention::core_job(AttentionWorker& worker, std::int64_t job, const Tensor& saved,
                            const Tensor& lse, const Tensor& out, const AttentionCall& call) const {
  const Heads from = heads_of_saved(saved, job);
  const HeadRows out_heads = heads_of_out(out, job);
  const MaskRows mask = mask_of(call, job);
  const ScoreDropout dropout = dropout_of(call, job);
  for (AttentionWorker::Block& block : worker.blocks()) {
    const QueryBlock& rows = block.shape;
    block.scores.run(from.q.from_position(rows.first).data, from.k.data, worker.scores);
    if (mask.values) mask_block(rows, scale_, mask, worker.scores);
    softmax_block(rows, {.scale = mask.values ? 1.0f : scale_,
                         .scores = worker.scores,
                         .dtype = shape_.dtype,
                         .probabilities = worker.probabilities,
                         .inverse_sum = worker.row_factors,
                         .lse = lse.as<float>() + job * group() * shape_.seq_len,
                         .lse_stride = shape_.seq_len});
    if (dropout.drops())
      drop_block(rows, dropout, shape_.dtype, worker.probabilities, worker.row_factors);
    block.values.run(worker.probabilities, from.v.data, worker.values);
    scale_heads(rows, worker.values, worker.row_factors, out_heads.from_position(rows.first));
  }
}

void CpuAttention::backward_job(AttentionWorker& worker, std::int64_t job, const Tensor& saved,
                                const Tensor& lse, const Tensor& out, const Tensor& dout,
                                const Tensor& dqkv, const AttentionCall& call) const {
  const Heads from = heads_of_saved(saved, job), to = heads_of_qkv(dqkv, job);
  const HeadRows out_heads = heads_of_out(out, job), dout_heads = heads_of_out(dout, job);
  const MaskRows mask = mask_of(call, job);
  const ScoreDropout dropout = dropout_of(call, job);
  const std::int64_t elements = shape_.seq_len * shape_.head_dim;
  std::fill_n(worker.keys_gradient, elements, 0.0f);
  std::fill_n(worker.values_gradient, elements, 0.0f);
  for (AttentionWorker::Block& block : worker.blocks()) {
    const QueryBlock& rows = block.shape;
    const void* q = from.q.from_position(rows.first).data;
    gather_gradient(rows, dout_heads.from_position(rows.first), out_heads.from_position(rows.first),
                    worker.gradient, worker.row_factors);
    block.scores.run(q, from.k.data, worker.scores);
    if (mask.values) mask_block(rows, scale_, mask, worker.scores);
    block.scores.run(worker.gradient, from.v.data, worker.dprobabilities);
    score_gradient_block(rows, {.scale = scale_,
                                .score_scale = mask.values ? 1.0f : scale_,
                                .scores = worker.scores,
                                .dprobabilities = worker.dprobabilities,
                                .delta = worker.row_factors,
                                .lse = lse.as<float>() + job * group() * shape_.seq_len,
                                .lse_stride = shape_.seq_len,
                                .dtype = shape_.dtype,
                                .probabilities = worker.probabilities,
                                .dscores = worker.dscores,
                                .dropout = dropout});
    block.keys_gradient->run(worker.probabilities, worker.gradient, worker.values_gradient);
    block.keys_gradient->run(worker.dscores, q, worker.keys_gradient);
    block.values.run(worker.dscores, from.k.data, worker.values);
    place_heads(rows, Direction::backward, {worker.values, DType::f32, group() * shape_.head_dim},
                to.q.from_position(rows.first));
  }
  const QueryBlock keys = all_positions(1);
  place_heads(keys, Direction::backward, {worker.keys_gradient, DType::f32, shape_.head_dim}, to.k);
  copy_heads(keys, {worker.values_gradient, DType::f32, shape_.head_dim}, to.v);
}

void CpuAttention::place_heads(const QueryBlock& block, Direction direction, const HeadRows& from,
                               const HeadRows& to) const {
  if (!shape_.rotary) return copy_heads(block, from, to);
  const Rotation rotation{rotation_, rotation_ + angles()};
  rotate_heads(block, rotation, direction, from, to);
}

CpuAttention::Heads CpuAttention::heads_of_qkv(const Tensor& qkv, std::int64_t job) const {
  const std::int64_t h = shape_.heads, k = shape_.kv_heads, d = shape_.head_dim;
  const std::int64_t stride = (h + 2 * k) * d, kv_head = job % k;
  const HeadRows rows =
      HeadRows{qkv.data, shape_.dtype, stride}.from_element(job / k * shape_.seq_len * stride);
  return {.q = rows.from_element(kv_head * group() * d),
          .k = rows.from_element((h + kv_head) * d),
          .v = rows.from_element((h + k + kv_head) * d)};
}

CpuAttention::Heads CpuAttention::heads_of_saved(const Tensor& saved, std::int64_t job) const {
  const std::int64_t elements = shape_.seq_len * shape_.head_dim;  // of one head
  const std::int64_t start = job * (group() + 2) * elements;
  const HeadRows keys = HeadRows{saved.data, shape_.dtype, shape_.head_dim};
  const HeadRows queries = HeadRows{saved.data, shape_.dtype, group() * shape_.head_dim};
  return {.q = queries.from_element(start),
          .k = keys.from_element(start + group() * elements),
          .v = keys.from_element(start + (group() + 1) * elements)};
}

HeadRows CpuAttention::heads_of_out(const Tensor& out, std::int64_t job) const {
  const std::int64_t stride = shape_.heads * shape_.head_dim;
  const std::int64_t batch = job / shape_.kv_heads, kv_head = job % shape_.kv_heads;
  return HeadRows{out.data, shape_.dtype, stride}.from_element(batch * shape_.seq_len * stride +
                                                               kv_head * group() * shape_.head_dim);
}

MaskRows CpuAttention::mask_of(const AttentionCall& call, std::int64_t job) const {
  if (shape_.mask == Mask::none) return {};
  if (shape_.mask == Mask::pairs) return {call.mask.as<float>(), shape_.seq_len};
  return {call.mask.as<float>() + job / shape_.kv_heads * shape_.seq_len, 0};
}

ScoreDropout CpuAttention::dropout_of(const AttentionCall& call, std::int64_t job) const {
  const std::int64_t batch = job / shape_.kv_heads, kv_head = job % shape_.kv_heads;
  const std::int64_t head = shape_.first_head + kv_head * group();
  const std::int64_t sequences = call.sequences > 0 ? call.sequences : shape_.batch;
  const std::int64_t sequence = call.first_sequence + batch;
  const auto s = static_cast<std::uint64_t>(shape_.seq_len);
  return {.dropout = call.dropout,
          .first = static_cast<std::uint64_t>(head * sequences + sequence) * s * s,
          .head_stride = static_cast<std::uint64_t>(sequences) * s * s,
          .position_stride = s};
}

QueryBlock CpuAttention::all_positions(std::int64_t heads) const {
  return {.positions = shape_.seq_len, .group = heads, .head_dim = shape_.head_dim};
}

std::size_t CpuAttention::angles() const {
  return shape_.rotary ? static_cast<std::size_t>(shape_.seq_len * shape_.head_dim / 2) : 0;
}

}  // namespace troupe::tensor
