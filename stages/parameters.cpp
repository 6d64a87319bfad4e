#include "stages/parameters.h"

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
  if (info.layer == model.num_hidden_layers) return chunk.head;
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
  const bool tied_use =
      info.layer == kEmbeddingLayer && spec.model.tie_word_embeddings && has_head(spec);
  return tied_use || std::ranges::any_of(spec.chunks, has_it);
}

std::int64_t aligned(std::int64_t elements) {
  return (elements + kAlignedElements - 1) / kAlignedElements * kAlignedElements;
}

Buffer allocate(tensor::Device& device, std::int64_t elements) {
  if (elements == 0) return {};
  return device.allocate(static_cast<std::size_t>(elements) * sizeof(float),
                         tensor::MemoryKind::device);
}

Tensor view(const Buffer& buffer, const ParameterLayout::Entry& entry) {
  if (!buffer.data()) return {};
  return buffer.view(DType::f32, entry.shape,
                     static_cast<std::size_t>(entry.offset) * sizeof(float));
}

Tensor view(const Buffer& buffer, const ParameterLayout::Entry::Place& place,
            std::int64_t skip = 0) {
  if (!buffer.data()) return {};
  return buffer.view(DType::f32, place.shape,
                     static_cast<std::size_t>(skip + place.offset) * sizeof(float));
}

/// Joins the rows of adjacent matrices or vectors into one view.
Tensor join(std::span<const Parameter> parts, Tensor Parameter::*field) {
  Tensor joined = parts.front().*field;
  if (!joined) return {};
  std::int64_t rows = 0;
  for (const Parameter& part : parts) rows += (part.*field).shape[0];
  if (joined.shape.rank() == 1)
    joined.shape = {rows};
  else
    joined.shape = {rows, joined.shape[1]};
  return joined;
}

/// Takes the parameters of a layer one after the other, in canonical order.
class LayerCursor {
 public:
  LayerCursor(const Parameter& first, Tensor Parameter::*field) : next_(&first), field_(field) {}

  Tensor next(std::size_t joined = 1) {
    const std::span<const Parameter> parts(next_, joined);
    next_ += joined;
    return join(parts, field_);
  }
  NormParameters norm(bool has_bias) {
    return {.weight = next(), .bias = has_bias ? next() : Tensor{}};
  }
  LinearParameters linear(bool has_bias, std::size_t joined = 1) {
    return {.weight = next(joined), .bias = has_bias ? next(joined) : Tensor{}};
  }

 private:
  const Parameter* next_;
  Tensor Parameter::*field_;
};

struct Places {
  std::vector<tensor::Shape> shapes;
  std::vector<std::int64_t> offsets;
};
Places places_of(const ParameterLayout& layout) {
  Places places;
  for (const ParameterLayout::Entry& entry : layout.entries) {
    places.shapes.push_back(entry.shape);
    places.offsets.push_back(entry.offset);
  }
  return places;
}

/// Lays the rows of a slice out close together. Returns the elements that they take.
std::int64_t lay_out_slice(int slice, ParameterLayout& layout,
                           ParameterLayout::Entry::Place ParameterLayout::Entry::*places) {
  const auto i = static_cast<std::size_t>(slice);
  std::int64_t end = 0;
  for (ParameterLayout::Entry& entry : layout.entries) {
    const std::int64_t rows = entry.row_cuts[i + 1] - entry.row_cuts[i];
    entry.*places = {.offset = end, .shape = {rows * entry.shape.num_elements() / entry.shape[0]}};
    end = aligned(end + (entry.*places).shape.num_elements());
  }
  return end;
}

/// Moments lie where their parameters do, unless the replicas divide them.
void lay_out_moments(const StateSharding& sharding, ParameterLayout& layout) {
  using Entry = ParameterLayout::Entry;
  const auto [shapes, offsets] = places_of(layout);
  auto cuts = cut_rows(shapes, offsets, layout.size, sharding);
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    layout.entries[i].row_cuts = std::move(cuts[i]);
    layout.entries[i].moments = {.offset = offsets[i], .shape = shapes[i]};
  }
  layout.moments = layout.size;
  if (sharding.count == 1) return;
  layout.moments = lay_out_slice(sharding.index, layout, &Entry::moments);
  if (sharding.twins)
    layout.twin_moments = lay_out_slice(sharding.twin(), layout, &Entry::twin_moments);
}

}  // namespace

ParameterLayout lay_out_parameters(const StageSpec& spec) {
  ParameterLayout layout;
  for (ParameterInfo& info : parameters_of(spec.model)) {
    if (!holds(spec, info)) continue;
    if (!info.is_joined) layout.size = aligned(layout.size);
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
  lay_out_moments(spec.state, layout);
  return layout;
}

std::vector<GradientPiece> pieces_of(const ParameterLayout& layout) {
  const auto [shapes, offsets] = places_of(layout);
  return cut_into_pieces(shapes, offsets);
}

Parameters::Parameters(const StageSpec& spec, tensor::Device& device)
    : model_(spec.model), ops_(device.ops()) {
  const ParameterLayout layout = lay_out_parameters(spec);
  weight_memory_ = allocate(device, layout.size);
  weights_ = weight_memory_.view(DType::f32, {layout.size});
  if (spec.training) {
    gradient_memory_ = allocate(device, layout.size);
    exp_avg_memory_ = allocate(device, layout.moments);
    exp_avg_sq_memory_ = allocate(device, layout.moments);
    twin_memory_ = allocate(device, 2 * layout.twin_moments);
    tied_memory_ = allocate(device, layout.tied_size);
    gradients_ = gradient_memory_.view(DType::f32, {layout.size});
    if (layout.tied_size > 0) head_use_ = view(tied_memory_, layout.entries.front());
  }
  const bool keeps = spec.training && spec.keep_previous;
  if (keeps) {
    previous_memory_ = allocate(device, layout.size + 2 * layout.moments);
    saved_weights_ = previous_memory_.view(DType::f32, {layout.size});
  }
  for (const ParameterLayout::Entry& entry : layout.entries) {
    all_.push_back({.name = entry.info.name,
                    .weight = view(weight_memory_, entry),
                    .gradient = view(gradient_memory_, entry),
                    .exp_avg = view(exp_avg_memory_, entry.moments),
                    .exp_avg_sq = view(exp_avg_sq_memory_, entry.moments),
                    .twin_exp_avg = view(twin_memory_, entry.twin_moments),
                    .twin_exp_avg_sq = view(twin_memory_, entry.twin_moments, layout.twin_moments),
                    .decays = spec.decay_all || entry.info.shape.rank() >= 2,
                    .owned = entry.owned,
                    .owned_by_stage = entry.owned_by_stage,
                    .whole_shape = entry.info.shape,
                    .region = entry.region,
                    .row_cuts = entry.row_cuts,
                    .slice = spec.state.index,
                    .twin_slice = spec.state.twin()});
    splits_.push_back(entry.info.split);
  }
  for (std::size_t i = 0; i < all_.size(); ++i)
    first_of_layer_.emplace(layout.entries[i].info.layer, i);
  next_ = all_;
  for (std::size_t i = 0; keeps && i < next_.size(); ++i) {
    const auto& moments = layout.entries[i].moments;
    next_[i].exp_avg = view(previous_memory_, moments, layout.size);
    next_[i].exp_avg_sq = view(previous_memory_, moments, layout.size + layout.moments);
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

const Parameter& Parameters::first_of(int layer) const {
  const auto found = first_of_layer_.find(layer);
  TROUPE_ASSERT(found != first_of_layer_.end());
  return all_[found->second];
}

Tensor Parameters::tied_gradient() const {
  const bool has_use = first_of_layer_.contains(kEmbeddingLayer);
  const bool exchanges = model_.tie_word_embeddings && has_use && !head_use_;
  return exchanges ? first_of(kEmbeddingLayer).gradient : Tensor{};
}

EmbeddingParameters Parameters::embedding(Tensor Parameter::*field) const {
  EmbeddingParameters views{.table = first_of(kEmbeddingLayer).*field, .positions = {}};
  if (model_.kind == ModelKind::gpt2) views.positions = first_of(kPositionsLayer).*field;
  return views;
}

BlockParameters Parameters::block(int layer, Tensor Parameter::*field) const {
  LayerCursor cursor(first_of(layer), field);
  const bool is_gpt2 = model_.kind == ModelKind::gpt2;
  const bool attention = is_gpt2 || model_.attention_bias, mlp = is_gpt2 || model_.mlp_bias;
  return {.input_norm = cursor.norm(is_gpt2),
          .qkv = cursor.linear(attention, 3),
          .o = cursor.linear(attention),
          .post_norm = cursor.norm(is_gpt2),
          .gate_up = cursor.linear(mlp, is_gpt2 ? 1 : 2),
          .down = cursor.linear(mlp)};
}

HeadParameters Parameters::head(Tensor Parameter::*field) const {
  LayerCursor cursor(first_of(static_cast<int>(model_.num_hidden_layers)), field);
  HeadParameters head{.norm = cursor.norm(model_.kind == ModelKind::gpt2)};
  head.projection = model_.tie_word_embeddings ? first_of(kEmbeddingLayer).*field : cursor.next();
  if (model_.value_head && model_.value_head_bias) head.bias = cursor.next();
  return head;
}

HeadParameters Parameters::head_weights() const {
  return head(&Parameter::weight);
}

HeadParameters Parameters::head_gradients() const {
  HeadParameters gradients = head(&Parameter::gradient);
  if (head_use_) gradients.projection = head_use_;
  return gradients;
}

std::vector<int> Parameters::numbers_of(const Tensor& gradients) const {
  std::vector<int> numbers;
  if (!gradients) return numbers;
  const Tensor& part =
      head_use_.data == gradients.data ? first_of(kEmbeddingLayer).gradient : gradients;
  const auto* const begin = part.as<float>();
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const auto* const gradient = all_[i].gradient.as<float>();
    if (gradient >= begin && gradient < begin + part.num_elements())
      numbers.push_back(static_cast<int>(i));
  }
  return numbers;
}

void Parameters::add_tied_uses(tensor::Stream& stream, const ParameterRange& parameters) const {
  if (!head_use_) return;
  const auto embedding = static_cast<int>(first_of_layer_.at(kEmbeddingLayer));
  if (embedding < parameters.first || embedding >= parameters.end) return;
  ops_.accumulate(stream, head_use_, first_of(kEmbeddingLayer).gradient);
}

}  // namespace troupe::stages
