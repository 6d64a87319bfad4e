#include "stages/inference/generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "tensor/errors/error.h"
#include "tensor/parallel/division.h"

namespace troupe::stages {

using tensor::DType;
using tensor::Tensor;

namespace {

tensor::Buffer allocate(tensor::Device& device, DType dtype, std::int64_t elements,
                        tensor::MemoryKind kind) {
  return device.allocate(static_cast<std::size_t>(elements) * size_of(dtype), kind);
}

std::int64_t most_rows(const GeneratorSpec& spec) {
  return std::max(spec.prompt_rows, spec.sequences);
}

InferenceSpec stage_spec(const GeneratorSpec& spec, const PartLinks& links) {
  return {.model = spec.model,
          .chunk = chunk_of(spec.model, spec.part),
          .sharding = spec.part.sharding(),
          .prompt_rows = spec.prompt_rows,
          .sequences = spec.sequences,
          .capacity = spec.capacity,
          .one_shot = links.one_shot};
}

}  // namespace

Generator::Generator(const GeneratorSpec& spec, tensor::Device& device, const PartLinks& links)
    : spec_(spec),
      device_(device),
      links_(links),
      groups_{.forward = links.shards},
      stream_(device.make_stream()),
      stage_(std::make_unique<InferenceStage>(stage_spec(spec, links), device, groups_)),
      rows_(spec.model, most_rows(spec), device) {
  const ModelPart& part = spec.part;
  TROUPE_ASSERT((part.tp > 1) == (links.shards != nullptr));
  TROUPE_ASSERT((part.pp > 1) == (links.stages != nullptr));
  const std::int64_t rows = most_rows(spec), channels = spec.model.hidden_size;
  const DType dtype = spec.model.dtype;
  const auto memory = tensor::MemoryKind::device;
  x_memory_ = allocate(device, dtype, rows * channels, memory);
  x_ = x_memory_.view(dtype, {rows, channels});
  if (!part.is_last()) return;
  kept_memory_ = allocate(device, dtype, spec.sequences * channels, memory);
  kept_ = kept_memory_.view(dtype, {spec.sequences, channels});
  const std::int64_t vocabulary = vocab_rows(spec.model.vocab_size, part.tp);
  logits_memory_ = allocate(device, DType::f32, spec.sequences * vocabulary, memory);
  logits_ = logits_memory_.view(DType::f32, {spec.sequences, vocabulary});
  if (part.tp > 1)
    gathered_memory_ = allocate(device, DType::f32, part.tp * logits_.num_elements(), memory);
  if (part.shard == 0)
    all_logits_ = allocate(device, DType::f32, spec.sequences * spec.model.vocab_size,
                           tensor::MemoryKind::pinned);
}

Generator::~Generator() {
  leave(*stream_);
}

void Generator::load_weights(const Load& load) {
  load(stage_->parameters(), device_);
  stage_->pack(*stream_);
  stream_->synchronize();
}

Tensor Generator::stream_of_rows(std::int64_t count) const {
  return tensor::row_view(x_, 0, count);
}

void Generator::take(std::span<const std::vector<std::int32_t>> prompts) {
  TROUPE_ASSERT(static_cast<std::int64_t>(prompts.size()) <= spec_.sequences);
  lengths_.clear();
  if (caches_again()) texts_.assign(prompts.begin(), prompts.end());
  new_tokens_.clear();
  for (const auto& prompt : prompts) {
    const auto length = static_cast<std::int32_t>(prompt.size());
    TROUPE_ASSERT(length >= 1 && length <= spec_.capacity);
    for (std::int32_t position = 0; position < length; ++position) {
      const std::int32_t id = prompt[static_cast<std::size_t>(position)];
      if (id < 0 || id >= spec_.model.vocab_size)
        throw Error(ErrorKind::data,
                    fmt::format("token {} of the text has id {}, but the model knows ids 0 to {}: "
                                "its tokenizer does not fit its vocab_size",
                                position, id, spec_.model.vocab_size - 1));
      new_tokens_.push_back({.id = id,
                             .sequence = static_cast<std::int32_t>(lengths_.size()),
                             .position = position,
                             .length = length});
    }
    lengths_.push_back(length);
  }
}

void Generator::pass() {
  const Tensor own = stream_of_rows(rows_.count());
  if (!spec_.part.is_first()) links_.stages->receive(*stream_, own);
  stage_->forward(*stream_, rows_, own);
  if (!spec_.part.is_last()) links_.stages->send(*stream_, own);
  if (spec_.part.is_last())
    for (const auto& [row, sequence] : ends_)
      device_.ops().copy(*stream_, tensor::row_view(own, row, 1),
                         tensor::row_view(kept_, sequence, 1));
  stream_->synchronize();
  if (!links_.one_shot) return;
  if (const std::string fault = links_.one_shot->fault(); !fault.empty())
    throw Error(ErrorKind::unavailable, "the shards of the stage do not go on: " + fault);
}

std::span<const float> Generator::prefill(std::span<const std::vector<std::int32_t>> prompts) {
  take(prompts);
  pass_prompts();
  return logits(kept_);
}

void Generator::pass_prompts() {
  std::span<const NewToken> left = new_tokens_;
  while (!left.empty()) {
    const auto rows = std::min(left.size(), static_cast<std::size_t>(spec_.prompt_rows));
    rows_.fill(left.first(rows), spec_.prompt_rows);
    ends_.clear();
    for (std::size_t row = 0; row < rows; ++row) {
      const auto& [id, sequence, position, length] = left[row];
      if (position + 1 == length)
        ends_.push_back({.row = static_cast<std::int64_t>(row), .sequence = sequence});
    }
    pass();
    left = left.subspan(rows);
  }
}

void Generator::cache_again(std::span<const std::int32_t> tokens) {
  new_tokens_.clear();
  const std::int64_t original = spec_.model.rotary.original_max_position_embeddings;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0) continue;
    if (std::ssize(texts_[i]) == original)
      for (std::int32_t position = 0; const std::int32_t id : texts_[i])
        new_tokens_.push_back({.id = id,
                               .sequence = static_cast<std::int32_t>(i),
                               .position = position++,
                               .length = original + 1});
    texts_[i].push_back(tokens[i]);
  }
  pass_prompts();
}

std::span<const float> Generator::decode(std::span<const std::int32_t> tokens) {
  TROUPE_ASSERT(tokens.size() == lengths_.size());
  if (caches_again()) cache_again(tokens);
  new_tokens_.clear();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0) {
      new_tokens_.push_back({.sequence = -1});
      continue;
    }
    TROUPE_ASSERT(tokens[i] < spec_.model.vocab_size && lengths_[i] < spec_.capacity);
    const std::int32_t position = lengths_[i]++;
    new_tokens_.push_back({.id = tokens[i],
                           .sequence = static_cast<std::int32_t>(i),
                           .position = position,
                           .length = position + 1});
  }
  rows_.fill(new_tokens_, spec_.sequences);
  ends_.clear();
  pass();
  return logits(stream_of_rows(spec_.sequences));
}

Tensor Generator::gathered_logits() {
  const int shards = spec_.part.tp;
  if (shards == 1) return logits_;
  const Tensor all =
      gathered_memory_.view(DType::f32, {shards * spec_.sequences, logits_.shape[1]});
  tensor::wait(links_.shards->all_gather(*stream_, logits_, all), *stream_);
  return all;
}

std::span<const float> Generator::logits(const Tensor& rows) {
  if (!spec_.part.is_last()) return {};
  stage_->head(*stream_, rows, logits_);
  const Tensor parts = gathered_logits();
  std::span<const float> result;
  if (spec_.part.shard == 0) {
    const std::int64_t columns = logits_.shape[1], classes = spec_.model.vocab_size;
    const Tensor all = all_logits_.view(DType::f32, {spec_.sequences, classes});
    for (int shard = 0; shard < spec_.part.tp; ++shard) {
      const Tensor part = tensor::row_view(parts, shard * spec_.sequences, spec_.sequences);
      const std::int64_t first = shard * columns, count = std::min(columns, classes - first);
      if (count > 0) device_.ops().copy_columns(*stream_, part, 0, all, first, count);
    }
    result = {all.as<float>(), lengths_.size() * static_cast<std::size_t>(classes)};
  }
  stream_->synchronize();
  return result;
}

}  // namespace troupe::stages
