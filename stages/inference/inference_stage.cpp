#include "stages/inference/inference_stage.h"

#include <algorithm>

#include "tensor/errors/error.h"
#include "tensor/parallel/division.h"

namespace troupe::stages {

using tensor::DType;
using tensor::Tensor;

namespace {

InferenceLayers layers_of(const InferenceSpec& spec, const tensor::TensorParallelGroups& groups) {
  return {.layer = {.model = spec.model,
                    .micro = 1,
                    .seq_len = std::max(spec.prompt_rows, spec.sequences),
                    .parallel = {.size = spec.sharding.size,
                                 .shard = spec.sharding.shard,
                                 .groups = &groups}},
          .few_rows = std::min(spec.prompt_rows, spec.sequences),
          .sequences = spec.sequences,
          .capacity = spec.capacity,
          .one_shot = spec.one_shot};
}

StageSpec stage_of(const InferenceSpec& spec) {
  return {
      .model = spec.model, .chunks = {spec.chunk}, .sharding = spec.sharding, .training = false};
}

}  // namespace

InferenceStage::InferenceStage(const InferenceSpec& spec, tensor::Device& device,
                               const tensor::TensorParallelGroups& groups)
    : spec_(spec),
      ops_(device.ops()),
      layers_(layers_of(spec, groups)),
      parameters_(stage_of(spec), device),
      block_(layers_, device) {
  const LayerShape shape(layers_.layer);
  const tensor::TensorParallel& parallel = layers_.layer.parallel;
  const std::int64_t vocabulary = parallel.size * shape.V;
  if (spec.chunk.embedding) {
    embedding_ = std::make_unique<tensor::VocabParallelEmbedding>(
        device,
        tensor::EmbeddingShape{.tokens = shape.T, .vocabulary = vocabulary, .channels = shape.C},
        parallel);
    embedding_weights_ = parameters_.embedding_weights();
  }
  if (spec.chunk.head) {
    tensor::LinearShape whole = inference_shape(layers_);
    whole.rows = spec.sequences;
    whole.in = shape.C;
    whole.out = vocabulary;
    whole.output_dtype = DType::f32;
    whole.other_rows.clear();
    head_.norm.emplace(spec.model, shape.S, shape.C, device);
    head_.projection = std::make_unique<tensor::ColumnParallelLinear>(device, whole, parallel);
    head_.weights.master = parameters_.head_weights(Pass::forward);
  }
  const std::vector<std::size_t> attentions = attention_numbers(spec.model);
  for (int layer = spec.chunk.first_layer; layer < spec.chunk.end_layer; ++layer)
    blocks_.push_back(weights_of(parameters_.block_weights(layer, Pass::forward), {},
                                 attentions[static_cast<std::size_t>(layer)]));
  for (const LayerAttention& attention : attentions_of(spec.model))
    rotations_.push_back(rotation_of(rotations_of(spec.model), attention));
  const auto memory_for = [&](auto lay_out) {
    Arena count;
    (this->*lay_out)(count);
    tensor::Buffer memory = device.allocate(count.bytes(), tensor::MemoryKind::device);
    Arena arena(memory.data());
    (this->*lay_out)(arena);
    return memory;
  };
  packed_memory_ = memory_for(&InferenceStage::lay_out_packed);
  activation_memory_ = memory_for(&InferenceStage::lay_out_activations);
  cache_memory_ =
      device.allocate(blocks_.size() * static_cast<std::size_t>(block_.cache_elements()) *
                          size_of(spec.model.dtype),
                      tensor::MemoryKind::device);
}

void InferenceStage::lay_out_packed(Arena& arena) {
  for (BlockWeights& block : blocks_) {
    Arena* const experts = block.feed_forward.master.router ? &arena : nullptr;
    const PackedBlock packed = block_.products().lay_out_packed(arena, experts);
    block.attention.packed = packed.attention;
    block.feed_forward.packed = packed.feed_forward;
  }
  if (head_.projection) head_.weights.packed = arena.take_bytes(head_.projection->packed_bytes());
}

void InferenceStage::lay_out_activations(Arena& arena) {
  const std::int64_t rows = layers_.layer.seq_len;
  rows_ = {.ids = arena.take(DType::i32, {rows}),
           .sequences = arena.take(DType::i32, {rows}),
           .positions = arena.take(DType::i32, {rows}),
           .angles = {}};
  const Rotations rotations = rotations_of(spec_.model);
  for (std::size_t i = 0; i < rotations.size(); ++i) {
    if (!rotations[i]) continue;
    const std::int64_t half = rotary_dim(*rotations[i], spec_.model.head_dim) / 2;
    rows_.angles[i].cos = arena.take(DType::f32, {rows, half});
    rows_.angles[i].sin = arena.take(DType::f32, {rows, half});
  }
  activations_ = block_.lay_out_activations(arena);
  set_scratch(arena);
}

void InferenceStage::set_scratch(Arena& arena) {
  std::size_t products = block_.products().scratch_bytes().forward;
  if (head_.projection) products = std::max(products, head_.projection->scratch_bytes().forward);
  void* const memory = arena.take_bytes(products);
  void* const attention = arena.take_bytes(block_.attention_scratch_bytes());
  if (!memory) return;
  block_.set_scratch(memory, attention);
  if (head_.projection) head_.projection->set_scratch({.forward = memory});
}

void InferenceStage::pack(tensor::Stream& stream) const {
  for (const BlockWeights& block : blocks_) block_.products().pack(stream, block);
  if (head_.projection)
    head_.projection->pack(stream, head_.weights.master.projection, head_.weights.packed);
}

void InferenceStage::forward(tensor::Stream& stream, const TokenRows& rows, const Tensor& x) const {
  TROUPE_ASSERT(rows.count() == spec_.prompt_rows || rows.count() == spec_.sequences);
  TROUPE_ASSERT(x.shape[0] == rows.count() && x.dtype == spec_.model.dtype);
  const RowTensors own = bring(stream, rows);
  if (embedding_) embed(stream, own, x);
  block_.begin(stream, blocks_.front(), activations_, x);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const bool is_last = i + 1 == blocks_.size();
    const NormParameters* next = is_last ? nullptr : &blocks_[i + 1].attention.master.norm;
    const tensor::CachedTokens tokens = tokens_of(own, blocks_[i].attention.attention);
    block_.forward(stream, blocks_[i], next, tokens, cache_of(i), activations_, x);
  }
}

tensor::CachedTokens InferenceStage::tokens_of(const RowTensors& rows,
                                               std::size_t attention) const {
  const int rotation = rotations_[attention];
  const RowAngles angles =
      rotation < 0 ? RowAngles{} : rows.angles[static_cast<std::size_t>(rotation)];
  return {.sequences = rows.sequences,
          .positions = rows.positions,
          .cos = angles.cos,
          .sin = angles.sin};
}

RowTensors InferenceStage::bring(tensor::Stream& stream, const TokenRows& rows) const {
  using R = RowTensors;
  const RowTensors from = rows.tensors();
  RowTensors own = rows_;
  const auto bring = [&](const Tensor& x, Tensor& to) {
    use_rows(to, rows.count());
    if (to) ops_.copy(stream, x, to);
  };
  for (Tensor R::*x : {&R::ids, &R::sequences, &R::positions}) bring(from.*x, own.*x);
  for (std::size_t i = 0; i < own.angles.size(); ++i) {
    bring(from.angles[i].cos, own.angles[i].cos);
    bring(from.angles[i].sin, own.angles[i].sin);
  }
  return own;
}

void InferenceStage::embed(tensor::Stream& stream, const RowTensors& rows, const Tensor& x) const {
  embedding_->forward(stream, rows.ids, embedding_weights_.table, x, x);
  const auto scale = static_cast<float>(embedding_scale(spec_.model));
  if (scale != 1) ops_.scale(stream, x, scale, x);
  if (embedding_weights_.positions)
    ops_.add_rows(stream, embedding_weights_.positions, rows.positions, x);
}

void InferenceStage::head(tensor::Stream& stream, const Tensor& x, const Tensor& logits) const {
  TROUPE_ASSERT(head_.projection && x.shape[0] == spec_.sequences);
  const CachedActivations memory = block_.first_rows(activations_, spec_.sequences);
  head_.norm->forward(stream, head_.weights.master.norm, x, memory.norm, memory.statistics);
  head_.projection->product(stream, memory.norm, head_.weights.packed, {}, logits);
  const auto scale = static_cast<float>(logit_scale(spec_.model));
  const auto cap = static_cast<float>(logit_cap(spec_.model));
  if (scale != 1 || cap != 0) ops_.cap_logits(stream, logits, scale, cap, logits);
}

Tensor InferenceStage::cache_of(std::size_t layer) const {
  const std::int64_t elements = block_.cache_elements();
  const auto bytes = static_cast<std::size_t>(elements) * size_of(spec_.model.dtype);
  return cache_memory_.view(spec_.model.dtype, {elements}, layer * bytes);
}

}  // namespace troupe::stages
