#include "actors/topology/memory/gpu_memory.h"

#include <algorithm>

#include "stages/model/computation.h"
#include "stages/stage/row_sizes.h"
#include "tensor/device/rotary.h"

namespace troupe::actors {
namespace {

/// The workspace of the products of one stream.
constexpr std::int64_t kProductBytes = std::int64_t{32} << 20;
/// cuDNN serves heads of these widths; kernels that need a number for each row serve the others.
constexpr std::int64_t kWidestHead = 256;
constexpr std::int64_t kHeadUnit = 8;

/// Those for which attention is made, which rows of documents may be a part of.
std::int64_t sequences_of(const stages::StageSpec& spec) {
  if (spec.documents == stages::Documents::joined) return spec.micro;
  const std::int64_t rows = spec.rows().capacity;
  return (rows + spec.seq_len - 1) / spec.seq_len;
}

/// Of one layer's backward; layers take turns with it.
std::int64_t attention_bytes(const stages::StageSpec& spec, bool deterministic) {
  const stages::ModelConfig& model = spec.model;
  if (!spec.training) return 0;
  const std::int64_t width = model.head_dim;
  const std::int64_t heads = model.num_attention_heads / spec.sharding.size;
  const std::int64_t rows = sequences_of(spec) * heads * spec.seq_len;
  if (model.dtype != tensor::DType::bf16 || width % kHeadUnit != 0 || width > kWidestHead)
    return 4 * rows;
  const std::int64_t block = width == 64 ? 128 : 256;
  const std::int64_t copies = deterministic ? (spec.seq_len + block - 1) / block : 1;
  const bool grouped = model.num_key_value_heads < model.num_attention_heads;
  return 4 * rows * width * (copies + (grouped ? 1 : 0)) + 4 * rows;
}

/// For each direction and each of the different attentions: a table of cosines and one of sines by
/// token, and what cuDNN keeps of the documents.
std::int64_t document_bytes(const stages::StageSpec& spec) {
  constexpr std::int64_t kFloat = sizeof(float), kBounds = std::int64_t{128} << 10;
  if (spec.documents == stages::Documents::joined) return 0;
  std::int64_t bytes = 0;
  for (const stages::LayerAttention& attention : stages::attentions_of(spec.model)) {
    bytes += kBounds;
    if (attention.rotary)  // both tables
      bytes += sequences_of(spec) * spec.seq_len * kFloat *
               tensor::rotary_dim(*attention.rotary, spec.model.head_dim);
  }
  return (spec.training ? 2 : 1) * bytes;
}

}  // namespace

std::int64_t packed_bytes_on_gpu(const stages::StageSpec& spec, const stages::StageMemory& memory) {
  std::int64_t elements = memory.weights / static_cast<std::int64_t>(sizeof(float));
  const bool embeds = std::ranges::any_of(spec.chunks, &stages::ChunkSpec::embedding);
  const bool has_head = std::ranges::any_of(spec.chunks, &stages::ChunkSpec::head);
  // Rows of the embedding are copied, not multiplied, except by a head that shares the matrix.
  if (embeds && !(spec.model.tie_word_embeddings && has_head))
    elements -=
        stages::vocab_rows(spec.model.vocab_size, spec.sharding.size) * spec.model.hidden_size;
  return elements * static_cast<std::int64_t>(tensor::size_of(spec.model.dtype));
}

std::int64_t workspace_on_gpu(const stages::StageSpec& spec, bool deterministic) {
  return (spec.training ? 2 : 1) * kProductBytes + attention_bytes(spec, deterministic) +
         document_bytes(spec);
}

}  // namespace troupe::actors
