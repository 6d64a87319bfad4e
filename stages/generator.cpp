#include "stages/generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tensor/error.h"
#include "tensor/random.h"

namespace troupe::stages {
namespace {

constexpr std::int64_t kShortestWindow = 64;

void check_ids(std::span<const std::int32_t> ids, std::int64_t vocab_size) {
  TROUPE_ASSERT(!ids.empty());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;
    throw Error(ErrorKind::data,
                fmt::format("token {} of the text has id {}, but the model knows ids 0 to {}: its "
                            "tokenizer does not fit its vocab_size",
                            i, ids[i], vocab_size - 1));
  }
}

}  // namespace

Generator::Generator(const ModelConfig& model, tensor::Device& device, std::int64_t seq_len)
    : model_(model),
      device_(device),
      stream_(device.make_stream()),
      full_(make_window(seq_len)),
      logits_(device.allocate(static_cast<std::size_t>(seq_len * model.vocab_size) * sizeof(float),
                              tensor::MemoryKind::device)),
      ids_(device.allocate(static_cast<std::size_t>(seq_len) * sizeof(std::int32_t),
                           tensor::MemoryKind::pinned)),
      copies_(device) {}

Generator::Window Generator::make_window(std::int64_t length) const {
  const ChunkSpec whole = {.first_layer = 0,
                           .end_layer = static_cast<int>(model_.num_hidden_layers),
                           .embedding = true,
                           .head = true};
  const StageSpec spec = {
      .model = model_, .chunks = {whole}, .micro = 1, .seq_len = length, .training = false};
  return {.length = length, .stage = make_transformer_stage(spec, device_)};
}

const Generator::Window& Generator::window_for(std::int64_t length) {
  std::int64_t padded = kShortestWindow;
  while (padded < length) padded *= 2;
  if (padded >= full_.length) return full_;
  if (short_.length != padded) {
    short_ = make_window(padded);
    const auto from = full_.stage->parameters();
    const auto to = short_.stage->parameters();
    for (std::size_t i = 0; i < from.size(); ++i) {
      device_.ops().copy(*stream_, from[i].weight, to[i].weight);
    }
    stream_->synchronize();
  }
  return short_;
}

std::span<const float> Generator::next_logits(std::span<const std::int32_t> ids) {
  check_ids(ids, model_.vocab_size);
  if (static_cast<std::int64_t>(ids.size()) > full_.length) {
    ids = ids.last(static_cast<std::size_t>(full_.length));
  }
  const Window& window = window_for(static_cast<std::int64_t>(ids.size()));
  const std::span padded(static_cast<std::int32_t*>(ids_.data()),
                         static_cast<std::size_t>(window.length));
  std::ranges::fill(std::ranges::copy(ids, padded.begin()).out, padded.end(), 0);
  const auto logits = logits_.view(tensor::DType::f32, {window.length, model_.vocab_size});
  window.stage->evaluate(0, {}, logits, padded, {});
  const auto vocab = static_cast<std::size_t>(model_.vocab_size);
  const auto last = logits_.view(tensor::DType::f32, {model_.vocab_size},
                                 (ids.size() - 1) * vocab * sizeof(float));
  return {copies_.on_host(last).as<float>(), vocab};
}

std::int32_t sample(std::span<const float> logits, double temperature, std::uint64_t seed,
                    std::uint64_t position) {
  const auto likeliest = std::ranges::max_element(logits);
  if (temperature <= 0) return static_cast<std::int32_t>(likeliest - logits.begin());
  const auto weight = [&](float logit) { return std::exp((logit - *likeliest) / temperature); };
  double total = 0;
  for (const float logit : logits) total += weight(logit);
  double left = tensor::Random(seed, "sample").uniform(position) * total;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    left -= weight(logits[i]);
    if (left < 0) return static_cast<std::int32_t>(i);
  }
  return static_cast<std::int32_t>(likeliest - logits.begin());
}

}  // namespace troupe::stages
