#include "stages/inference/generator.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/errors/error.h"
#include "tensor/parallel/division.h"

namespace troupe::stages {

using tensor::DType;
using tensor::Tensor;

namespace {

ChunkSpec chunk_of(const GeneratorSpec& spec, int stage) {
  const auto first_layer = [&](int s) {
    return static_cast<int>(spec.model.num_hidden_layers * s / spec.pp);
  };
  return {.first_layer = first_layer(stage),
          .end_layer = first_layer(stage + 1),
          .embedding = stage == 0,
          .head = stage == spec.pp - 1};
}

tensor::Buffer allocate(tensor::Device& device, DType dtype, std::int64_t elements,
                        tensor::MemoryKind kind) {
  return device.allocate(static_cast<std::size_t>(elements) * size_of(dtype), kind);
}

}  // namespace

std::string check_generator(const GeneratorSpec& spec) {
  if (spec.pp > spec.model.num_hidden_layers)
    return fmt::format("{} pipeline stages for {} layers; at most {} can have one", spec.pp,
                       spec.model.num_hidden_layers, spec.model.num_hidden_layers);
  return check_sharding(spec.model, spec.tp);
}

/// One shard of every stage, on a stream of its own.
struct Generator::Shard {
  Shard(const GeneratorSpec& of, int number, std::unique_ptr<tensor::Device> on,
        const tensor::TensorParallelGroups& groups);

  /// The pass of the rows through all stages. What comes of the prompts that end is kept.
  void pass(const TokenRows& rows, std::span<const PromptEnd> ends) const;
  /// The shard's columns of the logits [sequences, vocab_size] after the last token of each prompt,
  /// or of each row of a pass of `sequences` rows.
  void logits_after_prompts(const Tensor& all) const { logits_of(kept, all); }
  void logits_of_rows(const Tensor& all) const { logits_of(stream_of_rows(spec.sequences), all); }

  Tensor stream_of_rows(std::int64_t count) const { return tensor::row_view(x, 0, count); }
  void logits_of(const Tensor& rows, const Tensor& all) const;

  const GeneratorSpec& spec;
  std::unique_ptr<tensor::Device> device;
  std::unique_ptr<tensor::Stream> stream;
  std::vector<std::unique_ptr<InferenceStage>> stages;
  tensor::VocabRange classes;
  tensor::Buffer x_memory, kept_memory, logits_memory;
  Tensor x;       // [most rows, C]  act  the residual stream
  Tensor kept;    // [sequences, C]  act  of the prompts' last tokens
  Tensor logits;  // [sequences, V/n] f32
};

Generator::Shard::Shard(const GeneratorSpec& of, int number, std::unique_ptr<tensor::Device> on,
                        const tensor::TensorParallelGroups& groups)
    : spec(of), device(std::move(on)), stream(device->make_stream()) {
  const Sharding sharding{.size = of.tp, .shard = number};
  for (int stage = 0; stage < of.pp; ++stage)
    stages.push_back(std::make_unique<InferenceStage>(InferenceSpec{.model = of.model,
                                                                    .chunk = chunk_of(of, stage),
                                                                    .sharding = sharding,
                                                                    .prompt_rows = of.prompt_rows,
                                                                    .sequences = of.sequences,
                                                                    .capacity = of.capacity},
                                                      *device, groups));
  const std::int64_t rows = std::max(of.prompt_rows, of.sequences), channels = of.model.hidden_size;
  const std::int64_t vocabulary = vocab_rows(of.model.vocab_size, of.tp);
  classes = tensor::vocab_range(vocabulary * of.tp, of.tp, number);
  const auto memory = tensor::MemoryKind::device;
  x_memory = allocate(*device, of.model.dtype, rows * channels, memory);
  kept_memory = allocate(*device, of.model.dtype, of.sequences * channels, memory);
  logits_memory = allocate(*device, DType::f32, of.sequences * vocabulary, memory);
  x = x_memory.view(of.model.dtype, {rows, channels});
  kept = kept_memory.view(of.model.dtype, {of.sequences, channels});
  logits = logits_memory.view(DType::f32, {of.sequences, vocabulary});
}

void Generator::Shard::pass(const TokenRows& rows, std::span<const PromptEnd> ends) const {
  const Tensor own = stream_of_rows(rows.count());
  for (const auto& stage : stages) stage->forward(*stream, rows, own);
  for (const auto& [row, sequence] : ends)
    device->ops().copy(*stream, tensor::row_view(own, row, 1), tensor::row_view(kept, sequence, 1));
  stream->synchronize();
}

void Generator::Shard::logits_of(const Tensor& rows, const Tensor& all) const {
  stages.back()->head(*stream, rows, logits);
  const std::int64_t columns = std::min(classes.size, spec.model.vocab_size - classes.first);
  if (columns > 0) device->ops().copy_columns(*stream, logits, 0, all, classes.first, columns);
  stream->synchronize();
}

Generator::Generator(const GeneratorSpec& spec, const MakeDevice& make_device)
    : spec_(spec), threads_(spec.tp) {
  TROUPE_ASSERT(check_generator(spec).empty());
  for (int shard = 0; shard < spec.tp; ++shard) {
    auto device = make_device();
    TROUPE_ASSERT(spec.tp == 1 || device->host_reads_memory());
    shards_.push_back(
        std::make_unique<Shard>(spec_, shard, std::move(device), threads_.groups(shard)));
  }
  tensor::Device& device = *shards_.front()->device;
  rows_ =
      std::make_unique<TokenRows>(spec.model, std::max(spec.prompt_rows, spec.sequences), device);
  logits_ = allocate(device, DType::f32, spec.sequences * spec.model.vocab_size,
                     tensor::MemoryKind::pinned);
}

Generator::~Generator() = default;

void Generator::load_weights(const Load& load) {
  for (const auto& shard : shards_)
    for (const auto& stage : shard->stages) load(stage->parameters(), *shard->device);
  threads_.run([this](int number) {
    const Shard& shard = *shards_[static_cast<std::size_t>(number)];
    for (const auto& stage : shard.stages) stage->pack(*shard.stream);
    shard.stream->synchronize();
  });
}

void Generator::take(std::span<const std::vector<std::int32_t>> prompts) {
  TROUPE_ASSERT(static_cast<std::int64_t>(prompts.size()) <= spec_.sequences);
  lengths_.clear();
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

std::span<const float> Generator::prefill(std::span<const std::vector<std::int32_t>> prompts) {
  take(prompts);
  std::span<const NewToken> left = new_tokens_;
  while (!left.empty()) {
    const auto rows = std::min(left.size(), static_cast<std::size_t>(spec_.prompt_rows));
    rows_->fill(left.first(rows), spec_.prompt_rows);
    ends_.clear();
    for (std::size_t row = 0; row < rows; ++row) {
      const auto& [id, sequence, position, length] = left[row];
      if (position + 1 == length)
        ends_.push_back({.row = static_cast<std::int64_t>(row), .sequence = sequence});
    }
    threads_.run(
        [this](int shard) { shards_[static_cast<std::size_t>(shard)]->pass(*rows_, ends_); });
    left = left.subspan(rows);
  }
  return logits(&Shard::logits_after_prompts);
}

std::span<const float> Generator::decode(std::span<const std::int32_t> tokens) {
  TROUPE_ASSERT(tokens.size() == lengths_.size());
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
  rows_->fill(new_tokens_, spec_.sequences);
  threads_.run([this](int shard) { shards_[static_cast<std::size_t>(shard)]->pass(*rows_, {}); });
  return logits(&Shard::logits_of_rows);
}

std::span<const float> Generator::logits(LogitsOf of) {
  const Tensor all = logits_.view(DType::f32, {spec_.sequences, spec_.model.vocab_size});
  threads_.run([&](int shard) { (*shards_[static_cast<std::size_t>(shard)].*of)(all); });
  return {all.as<float>(), lengths_.size() * static_cast<std::size_t>(spec_.model.vocab_size)};
}

}  // namespace troupe::stages
