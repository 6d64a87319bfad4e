#include "tests/support/document_plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/emulated_grid/fault.h"
#include "tests/emulated_grid/grid.h"

namespace troupe::test {
namespace {

using emulated_grid::Fault;
using reference::Values;
using tensor::BFloat16;

constexpr std::int64_t kTile = 128;

const std::int64_t* offsets_of(void* data) {
  if (reinterpret_cast<std::uintptr_t>(data) % 16 != 0) throw Fault("offsets are not aligned");
  return static_cast<const std::int64_t*>(data);
}

Values read(const BFloat16* data, std::int64_t count) {
  Values values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(tensor::to_float(data[i]));
  return values;
}

void write(const Values& values, BFloat16* data) {
  for (std::size_t i = 0; i < values.size(); ++i)
    data[i] = tensor::to_bfloat16(static_cast<float>(values[i]));
}

bool is_near(double got, double expected) {
  return std::abs(got - expected) <= 0.02 * (1 + std::abs(expected));
}

}  // namespace

void DocumentPlan::run(cudaStream_t stream, const Addresses& at, void* workspace) {
  ++runs_;
  emulated_grid::Grid::of(stream).queue().run([this, at, workspace] {
    std::memset(workspace, 0xff, workspace_bytes());
    compute(at);
  });
}

void DocumentPlan::compute(const Addresses& at) const {
  if (reinterpret_cast<std::uintptr_t>(at.documents.lengths) % 16 != 0)
    throw Fault("lengths are not aligned");
  const auto* const lengths = static_cast<const std::int32_t*>(at.documents.lengths);
  for (std::int64_t document = 0; document < shape_.batch; ++document) {
    const std::int64_t length = lengths[document];
    if (length < 0 || length > shape_.seq_len) throw Fault("a document is longer than the shape");
    if (length > 0) compute_document(at, document, length);
  }
}

Values DocumentPlan::read_heads(const Addresses& at, std::int64_t first, std::int64_t rows) const {
  Values values;
  const std::int64_t D = shape_.head_dim;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const auto& [data, heads] :
         {std::pair{at.q, shape_.heads}, {at.k, shape_.kv_heads}, {at.v, shape_.kv_heads}}) {
      const auto* const from = static_cast<const BFloat16*>(data) + first + row * shape_.columns();
      const Values part = read(from, heads * D);
      values.insert(values.end(), part.begin(), part.end());
    }
  }
  return values;
}

void DocumentPlan::compute_document(const Addresses& at, std::int64_t document,
                                    std::int64_t length) const {
  const std::int64_t first = offsets_of(at.documents.qkv_offsets)[document],
                     all = shape_.batch * shape_.seq_len - first / shape_.columns(),
                     tiles = std::min((length + kTile - 1) / kTile * kTile, all);
  for (const double value : read_heads(at, first + length * shape_.columns(), tiles - length))
    if (!std::isfinite(value)) throw Fault("a tile has a NaN behind its document");
  const Values qkv = read_heads(at, first, length);
  const auto index = [](std::int64_t x) { return static_cast<std::size_t>(x); };
  const reference::AttentionDims dims{.seq_len = index(length),
                                      .heads = index(shape_.heads),
                                      .kv_heads = index(shape_.kv_heads),
                                      .head_dim = index(shape_.head_dim),
                                      .rotary = std::nullopt,
                                      .causal = shape_.causal};
  const reference::AttentionResult result = reference::attention(qkv, dims);
  const std::int64_t out_first = offsets_of(at.documents.out_offsets)[document];
  auto* const out = static_cast<BFloat16*>(at.out) + out_first;
  auto* const lse = static_cast<float*>(at.lse) + offsets_of(at.documents.lse_offsets)[document];
  const std::int64_t columns = shape_.heads * shape_.head_dim;
  if (pass_ == tensor::cuda::AttentionPass::backward) {
    check_results(result, read(out, length * columns), lse, length);
    const Values dout = read(static_cast<const BFloat16*>(at.dout) + out_first, length * columns);
    write(reference::attention_backward(dout, qkv, dims), static_cast<BFloat16*>(at.dqkv) + first);
    return;
  }
  write(result.out, out);
  for (std::int64_t head = 0; head < shape_.heads; ++head)
    for (std::int64_t row = 0; row < length; ++row)
      lse[row * shape_.heads + head] = static_cast<float>(result.lse[index(head * length + row)]);
}

void DocumentPlan::check_results(const reference::AttentionResult& expected, const Values& out,
                                 const float* lse, std::int64_t length) const {
  bool same = std::ranges::equal(out, expected.out, is_near);
  for (std::int64_t head = 0; head < shape_.heads; ++head)
    for (std::int64_t row = 0; row < length; ++row)
      same = same && is_near(lse[row * shape_.heads + head],
                             expected.lse[static_cast<std::size_t>(head * length + row)]);
  if (!same) throw Fault("a backward has results of another forward");
}

}  // namespace troupe::test
