#include "stages/parameters.h"

#include <fmt/format.h>

#include <algorithm>

#include "stages/arena.h"
#include "tensor/error.h"

namespace troupe::stages {

using tensor::Buffer;
using tensor::DType;
using tensor::Tensor;

namespace {

constexpr std::int64_t kAlignedElements = Arena::kAlignment / sizeof(float);

bool has_embedding(const StageSpec& spec) {
  return std::ranges::any_of(spec.chunks, &ChunkSpec::embedding);
}
bool has_head(const StageSpec& spec) {
  return std::ranges::any_of(spec.chunks, &ChunkSpec::head);
}

/// Whether the chunk's own layers have the parameter. A tied matrix belongs to the embedding.
bool has(const ChunkSpec& chunk, const ParameterInfo& info, const ModelConfig& model) {
  if (info.layer >= model.num_hidden_layers) return chunk.head;
  if (info.layer < 0) return chunk.embedding;
  return chunk.first_layer <= info.layer && info.layer < chunk.end_layer;
}

bool owns(const StageSpec& spec, const ParameterInfo& info) {
  return std::ranges::any_of(spec.chunks, [&](const ChunkSpec& chunk) {
    return chunk.owned && has(chunk, info, spec.model);
  });
}

bool holds(const StageSpec& spec, const ParameterInfo& info) {
  const auto has_it = [&](const ChunkSpec& chunk) { return has(chunk, info, spec.model); };
  const bool tied_use = info.layer < 0 && spec.model.tie_word_embeddings && has_head(spec);
  return tied_use || std::ranges::any_of(spec.chunks, has_it);
}

/// Whether one product computes with this parameter and the one before it.
bool is_joined(const ParameterInfo& info) {
  return info.name.ends_with(".k_proj.weight") || info.name.ends_with(".v_proj.weight") ||
         info.name.ends_with(".up_proj.weight");
}

std::int64_t aligned(std::int64_t elements) {
  return (elements + kAlignedElements - 1) / kAlignedElements * kAlignedElements;
}

Buffer allocate(tensor::Device& device, std::int64_t elements) {
  if (elements == 0) return {};
  return device.allocate(static_cast<std::size_t>(elements) * sizeof(float),
                         tensor::MemoryKind::device);
}

Tensor view(const Buffer& buffer, const ParameterLayout::Entry& entry, std::int64_t skip = 0) {
  if (!buffer.data()) return {};
  return buffer.view(DType::f32, entry.shape,
                     static_cast<std::size_t>(skip + entry.offset) * sizeof(float));
}

/// Joins the rows of two or three adjacent matrices into one view.
Tensor join(std::span<const Parameter> parts, Tensor Parameter::*field) {
  Tensor joined = parts.front().*field;
  if (!joined) return {};
  std::int64_t rows = 0;
  for (const Parameter& part : parts) rows += (part.*field).shape[0];
  joined.shape = {rows, joined.shape[1]};
  return joined;
}

}  // namespace

ParameterLayout lay_out_parameters(const StageSpec& spec) {
  ParameterLayout layout;
  for (ParameterInfo& info : parameters_of(spec.model)) {
    if (!holds(spec, info)) continue;
    if (!is_joined(info)) layout.size = aligned(layout.size);
    ParameterLayout::Entry entry{.info = std::move(info), .offset = layout.size};
    entry.shape = local_shape(entry.info, spec.model, spec.sharding);
    entry.region = region_of(entry.info, spec.model, spec.sharding);
    entry.owned_by_stage = owns(spec, entry.info);
    entry.owned = entry.owned_by_stage && owns_region(entry.info, spec.model, spec.sharding);
    layout.size += entry.shape.num_elements();
    layout.entries.push_back(std::move(entry));
  }
  layout.size = aligned(layout.size);
  if (spec.model.tie_word_embeddings && has_embedding(spec) && has_head(spec)) {
    layout.tied_size = layout.entries.front().shape.num_elements();
  }
  return layout;
}

Parameters::Parameters(const StageSpec& spec, tensor::Device& device)
    : ops_(device.ops()), tied_(spec.model.tie_word_embeddings) {
  const ParameterLayout layout = lay_out_parameters(spec);
  weight_memory_ = allocate(device, layout.size);
  if (spec.training) {
    gradient_memory_ = allocate(device, layout.size);
    exp_avg_memory_ = allocate(device, layout.size);
    exp_avg_sq_memory_ = allocate(device, layout.size);
    tied_memory_ = allocate(device, layout.tied_size);
    gradients_ = gradient_memory_.view(DType::f32, {layout.size});
    if (layout.tied_size > 0) head_use_ = view(tied_memory_, layout.entries.front());
  }
  const bool keeps = spec.training && spec.keep_previous;
  if (keeps) {
    previous_memory_ = allocate(device, 3 * layout.size);
    weights_ = weight_memory_.view(DType::f32, {layout.size});
    saved_weights_ = previous_memory_.view(DType::f32, {layout.size});
  }
  for (const ParameterLayout::Entry& entry : layout.entries) {
    all_.push_back({.name = entry.info.name,
                    .weight = view(weight_memory_, entry),
                    .gradient = view(gradient_memory_, entry),
                    .exp_avg = view(exp_avg_memory_, entry),
                    .exp_avg_sq = view(exp_avg_sq_memory_, entry),
                    .decays = spec.decay_all || entry.info.shape.rank() >= 2,
                    .owned = entry.owned,
                    .owned_by_stage = entry.owned_by_stage,
                    .whole_shape = entry.info.shape,
                    .region = entry.region});
    if (entry.info.split == Split::none) replicated_gradients_.push_back(all_.back().gradient);
    if (entry.info.split == Split::kv_rows) kv_head_gradients_.push_back(all_.back().gradient);
  }
  for (std::size_t i = 0; i < all_.size(); ++i) by_name_.emplace(all_[i].name, i);
  next_ = all_;
  for (std::size_t i = 0; keeps && i < next_.size(); ++i) {
    next_[i].exp_avg = view(previous_memory_, layout.entries[i], layout.size);
    next_[i].exp_avg_sq = view(previous_memory_, layout.entries[i], 2 * layout.size);
  }
}

void Parameters::save_weights(tensor::Stream& stream) const {
  ops_.copy(stream, weights_, saved_weights_);
}

void Parameters::restore_weights(tensor::Stream& stream) const {
  ops_.copy(stream, saved_weights_, weights_);
}

void Parameters::swap_moments() {
  for (std::size_t i = 0; i < all_.size(); ++i) {
    std::swap(all_[i].exp_avg, next_[i].exp_avg);
    std::swap(all_[i].exp_avg_sq, next_[i].exp_avg_sq);
  }
}

const Parameter& Parameters::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  TROUPE_ASSERT(found != by_name_.end());
  return all_[found->second];
}

Tensor Parameters::tied_gradient() const {
  const bool has_use = !all_.empty() && all_.front().name == kEmbedding;
  return tied_ && has_use && !head_use_ ? all_.front().gradient : Tensor{};
}

BlockParameters Parameters::block(int layer, Tensor Parameter::*field) const {
  const auto name = fmt::format("model.layers.{}.input_layernorm.weight", layer);
  const Parameter* const first = &find(name);
  // The canonical order is norm, q, k, v, o, norm, gate, up, down.
  return {.input_norm = {first[0].*field},
          .qkv = {.weight = join({first + 1, 3}, field)},
          .o = {.weight = first[4].*field},
          .post_norm = {first[5].*field},
          .gate_up = {.weight = join({first + 6, 2}, field)},
          .down = {.weight = first[8].*field}};
}

HeadParameters Parameters::head_weights() const {
  const Parameter& projection = find(tied_ ? kEmbedding : "lm_head.weight");
  return {.norm = {find("model.norm.weight").weight}, .projection = projection.weight};
}

HeadParameters Parameters::head_gradients() const {
  const Parameter& projection = find(tied_ ? kEmbedding : "lm_head.weight");
  return {.norm = {find("model.norm.weight").gradient},
          .projection = head_use_ ? head_use_ : projection.gradient};
}

void Parameters::add_tied_uses(tensor::Stream& stream) const {
  if (head_use_) ops_.accumulate(stream, head_use_, find(kEmbedding).gradient);
}

}  // namespace troupe::stages
