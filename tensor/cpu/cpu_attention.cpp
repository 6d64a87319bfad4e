#include "tensor/cpu/cpu_attention.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cmath>

#include "tensor/error.h"

namespace troupe::tensor {
namespace {

constexpr std::int64_t kBlockPositions = 64;

AttentionShape checked(const AttentionShape& s) {
  if (s.batch < 1 || s.seq_len < 1 || s.heads < 1 || s.kv_heads < 1 || s.head_dim < 2) {
    throw Error(ErrorKind::manifest,
                fmt::format("attention over batch {}, sequence {}, {} heads, {} key-value heads, "
                            "head size {}; each must be at least 1, the head size at least 2",
                            s.batch, s.seq_len, s.heads, s.kv_heads, s.head_dim));
  }
  if (s.heads % s.kv_heads != 0) {
    throw Error(ErrorKind::manifest,
                fmt::format("{} heads cannot share {} key-value heads; a divisor of {} is needed",
                            s.heads, s.kv_heads, s.heads));
  }
  if (s.head_dim % 2 != 0) {
    throw Error(ErrorKind::manifest,
                fmt::format("head size {} is odd; the rotary embedding turns pairs, so use {}",
                            s.head_dim, s.head_dim + 1));
  }
  if (s.dtype != DType::f32 && s.dtype != DType::bf16) {
    throw Error(ErrorKind::manifest, fmt::format("attention in {}; use float32 or bfloat16",
                                                 name_of(s.dtype)));
  }
  return s;
}

/// Makes oneDNN prepare, or run, products in the calling thread alone, until it goes out of scope.
class SingleThread {
 public:
  SingleThread() : threads_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~SingleThread() { omp_set_num_threads(threads_); }
  SingleThread(const SingleThread&) = delete;
  SingleThread& operator=(const SingleThread&) = delete;

 private:
  const int threads_;
};

/// Hands out parts of one buffer, each aligned to a cache line.
class Carver {
 public:
  explicit Carver(void* data) : data_(static_cast<std::byte*>(data)) {}
  void* take(std::int64_t elements, DType dtype) {
    constexpr std::size_t kAlignment = 64;
    const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(dtype);
    const std::size_t offset = used_;
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return data_ ? data_ + offset : nullptr;
  }
  float* take_floats(std::int64_t elements) {
    return static_cast<float*>(take(elements, DType::f32));
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* data_;
  std::size_t used_ = 0;
};

/// The angles of all positions as PyTorch computes them: frequency and angle rounded to float32.
void fill_rotation(const AttentionShape& shape, float* cos, float* sin) {
  const std::int64_t half = shape.head_dim / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(shape.head_dim);
    const float frequency = 1.0f / std::pow(static_cast<float>(shape.rope_theta), exponent);
    for (std::int64_t s = 0; s < shape.seq_len; ++s) {
      const double angle = static_cast<float>(s) * frequency;
      cos[s * half + i] = static_cast<float>(std::cos(angle));
      sin[s * half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace

CpuAttention::CpuAttention(Device& device, const AttentionShape& shape, int threads)
    : shape_(checked(shape)),
      threads_(threads),
      scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)))) {
  const auto angles = static_cast<std::size_t>(shape.seq_len * shape.head_dim / 2);
  rotation_ = device.allocate(2 * angles * sizeof(float), MemoryKind::host);
  auto* cos = static_cast<float*>(rotation_.data());
  fill_rotation(shape, cos, cos + angles);
  const SingleThread single;
  const auto workers = std::min<std::int64_t>(threads, num_jobs());
  for (std::int64_t i = 0; i < workers; ++i) workers_.push_back(make_worker(device));
}

CpuAttention::Worker CpuAttention::make_worker(Device& device) const {
  Worker worker;
  const DType dtype = shape_.dtype;
  const std::int64_t d = shape_.head_dim;
  std::size_t scratch_bytes = 0;
  for (std::int64_t i = 0; i * kBlockPositions < shape_.seq_len; ++i) {
    const std::int64_t r = block_at(i).rows(), n = block_at(i).columns();
    BlockProducts& products = worker.blocks.emplace_back(BlockProducts{
        .scores = Product({.m = r, .k = d, .n = n, .input = dtype, .b = Layout::transposed}),
        .values = Product({.m = r, .k = n, .n = d, .input = dtype}),
        .keys_gradient = Product({.m = n, .k = r, .n = d, .input = dtype,
                                  .a = Layout::transposed, .addend = Addend::destination})});
    for (const Product* product :
         {&products.scores, &products.values, &products.keys_gradient}) {
      scratch_bytes = std::max(scratch_bytes, product->scratch_bytes());
    }
  }
  const std::int64_t s = shape_.seq_len;
  const std::int64_t rows = std::min(s, kBlockPositions) * group();
  void* scratch = nullptr;
  const auto lay_out = [&](Carver carver) {
    scratch = carver.take(static_cast<std::int64_t>(scratch_bytes / sizeof(float)) + 1, DType::f32);
    worker.scores = carver.take_floats(rows * s);
    worker.dscores = carver.take_floats(rows * s);
    const bool in_place = dtype == DType::f32;
    worker.probabilities = in_place ? worker.scores : carver.take(rows * s, dtype);
    worker.dscores_act = in_place ? worker.dscores : carver.take(rows * s, dtype);
    worker.values = carver.take_floats(rows * d);
    worker.gradient = carver.take(rows * d, dtype);
    worker.row_factors = carver.take_floats(rows);
    worker.keys_gradient = carver.take_floats(s * d);
    worker.values_gradient = carver.take_floats(s * d);
    return carver.used();
  };
  worker.memory = device.allocate(lay_out(Carver(nullptr)), MemoryKind::host);
  lay_out(Carver(worker.memory.data()));
  for (BlockProducts& products : worker.blocks) {
    for (Product* product : {&products.scores, &products.values, &products.keys_gradient}) {
      product->set_scratch(scratch);
    }
  }
  return worker;
}

std::int64_t CpuAttention::saved_elements() const {
  return shape_.batch * shape_.seq_len * (shape_.heads + 2 * shape_.kv_heads) * shape_.head_dim;
}

template <typename Body>
void CpuAttention::for_each_job(const Body& body) {
  const std::int64_t jobs = num_jobs();
#pragma omp parallel num_threads(static_cast<int>(workers_.size()))
  {
    const SingleThread single;
    Worker& worker = workers_[static_cast<std::size_t>(omp_get_thread_num())];
#pragma omp for schedule(static)
    for (std::int64_t job = 0; job < jobs; ++job) body(worker, job);
  }
}

void CpuAttention::forward(Stream&, const Tensor& qkv, const Tensor& saved, const Tensor& lse,
                           const Tensor& out) {
  TROUPE_ASSERT(qkv.dtype == shape_.dtype && qkv.num_elements() == saved_elements());
  TROUPE_ASSERT(saved.dtype == shape_.dtype && saved.num_elements() == saved_elements());
  TROUPE_ASSERT(out.dtype == shape_.dtype && lse.dtype == DType::f32);
  for_each_job([&](Worker& worker, std::int64_t job) {
    forward_job(worker, job, qkv, saved, lse, out);
  });
}

void CpuAttention::backward(Stream&, const Tensor& saved, const Tensor& lse, const Tensor& out,
                            const Tensor& dout, const Tensor& dqkv) {
  TROUPE_ASSERT(dqkv.dtype == shape_.dtype && dqkv.num_elements() == saved_elements());
  TROUPE_ASSERT(saved.dtype == shape_.dtype && saved.num_elements() == saved_elements());
  TROUPE_ASSERT(out.dtype == shape_.dtype && dout.dtype == shape_.dtype);
  for_each_job([&](Worker& worker, std::int64_t job) {
    backward_job(worker, job, saved, lse, out, dout, dqkv);
  });
}

void CpuAttention::forward_job(Worker& worker, std::int64_t job, const Tensor& qkv,
                               const Tensor& saved, const Tensor& lse, const Tensor& out) const {
  const Heads from = heads_of_qkv(qkv, job), to = heads_of_saved(saved, job);
  const QueryBlock queries{0, shape_.seq_len, group(), shape_.head_dim};
  const QueryBlock keys{0, shape_.seq_len, 1, shape_.head_dim};
  rotate_heads(queries, rotation(), Direction::forward, from.q, to.q);
  rotate_heads(keys, rotation(), Direction::forward, from.k, to.k);
  copy_heads(keys, from.v, to.v);
  const HeadRows out_heads = heads_of_out(out, job);
  for (std::size_t i = 0; i < worker.blocks.size(); ++i) {
    const QueryBlock block = block_at(static_cast<std::int64_t>(i));
    worker.blocks[i].scores.run(to.q.from(block.first * to.q.stride).data, to.k.data,
                                worker.scores);
    softmax_block(block, {.scale = scale_,
                          .scores = worker.scores,
                          .dtype = shape_.dtype,
                          .probabilities = worker.probabilities,
                          .inverse_sum = worker.row_factors,
                          .lse = lse.as<float>() + job * group() * shape_.seq_len,
                          .lse_stride = shape_.seq_len});
    worker.blocks[i].values.run(worker.probabilities, to.v.data, worker.values);
    scale_heads(block, worker.values, worker.row_factors,
                out_heads.from(block.first * out_heads.stride));
  }
}

void CpuAttention::backward_job(Worker& worker, std::int64_t job, const Tensor& saved,
                                const Tensor& lse, const Tensor& out, const Tensor& dout,
                                const Tensor& dqkv) const {
  const Heads from = heads_of_saved(saved, job), to = heads_of_qkv(dqkv, job);
  const HeadRows out_heads = heads_of_out(out, job), dout_heads = heads_of_out(dout, job);
  const std::int64_t elements = shape_.seq_len * shape_.head_dim;
  std::fill_n(worker.keys_gradient, elements, 0.0f);
  std::fill_n(worker.values_gradient, elements, 0.0f);
  for (std::size_t i = 0; i < worker.blocks.size(); ++i) {
    BlockProducts& products = worker.blocks[i];
    const QueryBlock block = block_at(static_cast<std::int64_t>(i));
    const void* q = from.q.from(block.first * from.q.stride).data;
    gather_gradient(block, dout_heads.from(block.first * dout_heads.stride),
                    out_heads.from(block.first * out_heads.stride), worker.gradient,
                    worker.row_factors);
    products.scores.run(q, from.k.data, worker.scores);
    products.scores.run(worker.gradient, from.v.data, worker.dscores);
    score_gradient_block(block, {.scale = scale_,
                                 .scores = worker.scores,
                                 .dprobabilities = worker.dscores,
                                 .delta = worker.row_factors,
                                 .lse = lse.as<float>() + job * group() * shape_.seq_len,
                                 .lse_stride = shape_.seq_len,
                                 .dtype = shape_.dtype,
                                 .probabilities = worker.probabilities,
                                 .dscores = worker.dscores_act});
    products.keys_gradient.run(worker.probabilities, worker.gradient, worker.values_gradient);
    products.keys_gradient.run(worker.dscores_act, q, worker.keys_gradient);
    products.values.run(worker.dscores_act, from.k.data, worker.values);
    rotate_heads(block, rotation(), Direction::backward,
                 {worker.values, DType::f32, group() * shape_.head_dim},
                 to.q.from(block.first * to.q.stride));
  }
  const QueryBlock keys{0, shape_.seq_len, 1, shape_.head_dim};
  rotate_heads(keys, rotation(), Direction::backward,
               {worker.keys_gradient, DType::f32, shape_.head_dim}, to.k);
  copy_heads(keys, {worker.values_gradient, DType::f32, shape_.head_dim}, to.v);
}

QueryBlock CpuAttention::block_at(std::int64_t index) const {
  const std::int64_t first = index * kBlockPositions;
  return {first, std::min(kBlockPositions, shape_.seq_len - first), group(), shape_.head_dim};
}

CpuAttention::Heads CpuAttention::heads_of_qkv(const Tensor& qkv, std::int64_t job) const {
  const auto [b, s, h, k, d, theta, dtype] = shape_;
  const std::int64_t stride = (h + 2 * k) * d, kv_head = job % k;
  const HeadRows rows = HeadRows{qkv.data, dtype, stride}.from(job / k * s * stride);
  return {.q = rows.from(kv_head * group() * d),
          .k = rows.from((h + kv_head) * d),
          .v = rows.from((h + k + kv_head) * d)};
}

CpuAttention::Heads CpuAttention::heads_of_saved(const Tensor& saved, std::int64_t job) const {
  const std::int64_t elements = shape_.seq_len * shape_.head_dim;  // of one head
  const std::int64_t start = job * (group() + 2) * elements;
  const HeadRows keys = HeadRows{saved.data, shape_.dtype, shape_.head_dim};
  const HeadRows queries = HeadRows{saved.data, shape_.dtype, group() * shape_.head_dim};
  return {.q = queries.from(start),
          .k = keys.from(start + group() * elements),
          .v = keys.from(start + (group() + 1) * elements)};
}

HeadRows CpuAttention::heads_of_out(const Tensor& out, std::int64_t job) const {
  const std::int64_t stride = shape_.heads * shape_.head_dim;
  const std::int64_t batch = job / shape_.kv_heads, kv_head = job % shape_.kv_heads;
  return HeadRows{out.data, shape_.dtype, stride}.from(batch * shape_.seq_len * stride +
                                                       kv_head * group() * shape_.head_dim);
}

Rotation CpuAttention::rotation() const {
  const auto* cos = static_cast<const float*>(rotation_.data());
  return {cos, cos + shape_.seq_len * shape_.head_dim / 2};
}

}  // namespace troupe::tensor
