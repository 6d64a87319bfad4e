#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numbers>
#include <optional>
#include <span>
#include <vector>

#include "launch/commands/commands.h"
#include "launch/commands/inference.h"
#include "launch/host/console.h"
#include "launch/host/progress_line.h"
#include "launch/manifest/corpus.h"
#include "launch/manifest/tokenizing.h"
#include "schedules/counted.h"
#include "stages/checkpoint.h"
#include "stages/token_data.h"
#include "tensor/error.h"

namespace troupe::launch {
namespace {

constexpr std::int64_t kSamplesPerStep = 8;

struct Evaluation {
  double loss = 0;  ///< mean over the tokens
  std::int64_t tokens = 0;
  /// Bytes of the text that the tokens stand for; none if the tokenizer does not know them all.
  std::optional<std::int64_t> bytes;

  std::optional<double> bits_per_byte() const {
    if (!bytes || *bytes == 0) return std::nullopt;
    return loss * static_cast<double>(tokens) / static_cast<double>(*bytes) / std::numbers::ln2;
  }
};

/// The bytes of the text that the last of these tokens stand for, all but the first: how a token is
/// decoded may depend on whether there is one before it.
std::int64_t bytes_after_first(const stages::Tokenizer& tokenizer,
                               std::span<const std::int32_t> ids) {
  return std::ssize(tokenizer.decode(ids)) - std::ssize(tokenizer.decode(ids.first(1)));
}

/// Counts the bytes of text in the targets of samples.
class ByteCount {
 public:
  ByteCount(const stages::Tokenizer& tokenizer, std::int64_t seq_len)
      : tokenizer_(tokenizer), ids_(static_cast<std::size_t>(seq_len) + 1) {}

  void add(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets) {
    const std::size_t seq_len = ids_.size() - 1;
    for (std::size_t at = 0; at < targets.size() && bytes_; at += seq_len) {
      ids_[0] = inputs[at];
      std::ranges::copy(targets.subspan(at, seq_len), ids_.begin() + 1);
      if (std::ranges::max(ids_) < tokenizer_.vocab_size())
        *bytes_ += bytes_after_first(tokenizer_, ids_);
      else
        bytes_.reset();
    }
  }
  std::optional<std::int64_t> bytes() const { return bytes_; }

 private:
  const stages::Tokenizer& tokenizer_;
  std::vector<std::int32_t> ids_;  ///< of one sample, and the one before its first target
  std::optional<std::int64_t> bytes_ = 0;
};

/// The mean loss over the first samples of the text, each read at most once.
Evaluation evaluate(const EvalOptions& options, const stages::CheckpointReader& checkpoint,
                    const std::function<std::unique_ptr<stages::TokenFile>()>& open) {
  const auto& info = checkpoint.info();
  const std::int64_t seq_len = options.seq_len > 0 ? options.seq_len : info.seq_len;
  stages::FeedSpec feed_spec{
      .seq_len = seq_len, .micro = 1, .global = 1, .vocab_size = info.model.vocab_size};
  const std::int64_t samples = stages::DataFeed(open(), feed_spec).num_samples();
  const std::int64_t micro = std::min(samples, kSamplesPerStep);
  feed_spec.micro = feed_spec.global = micro;
  const stages::DataFeed feed(open(), feed_spec);

  const auto device = device_for(options.device, options.threads);
  const auto stage = whole_model(info.model, micro, seq_len, *device);
  checkpoint.load(*stage, true, options.json ? nullptr : progress_line("loading weights,"));
  stage->begin_step();
  // Pinned, so that a GPU can read the tokens.
  const auto count_of_step = static_cast<std::size_t>(micro * seq_len);
  const tensor::Buffer tokens =
      device->allocate(2 * count_of_step * sizeof(std::int32_t), tensor::MemoryKind::pinned);
  const std::span<std::int32_t> ids(static_cast<std::int32_t*>(tokens.data()), count_of_step);
  const std::span<std::int32_t> targets(ids.data() + count_of_step, count_of_step);
  const auto tokenizer = stages::Tokenizer::open(checkpoint.tokenizer());
  ByteCount bytes(*tokenizer, seq_len);
  const std::int64_t steps = std::min(options.steps, samples / micro);
  double sum = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    feed.microbatch(step, 0, 0, ids, targets);
    bytes.add(ids, targets);
    sum += stage->evaluate(0, {}, {}, ids, targets);
  }
  const std::int64_t count = steps * micro * seq_len;
  return {.loss = sum / static_cast<double>(count), .tokens = count, .bytes = bytes.bytes()};
}

/// A model with learned positions has no place for longer samples.
void check_seq_len(std::int64_t seq_len, const stages::ModelConfig& model) {
  if (model.kind == stages::ModelKind::gpt2 && seq_len > model.max_position_embeddings)
    throw Error(ErrorKind::usage,
                fmt::format("--seq-len {}: the model has {}", seq_len,
                            schedules::counted(model.max_position_embeddings, "position")));
}

/// All digits of a number, or null.
std::string exact(std::optional<double> number) {
  return number && std::isfinite(*number) ? fmt::format("{:.17g}", *number) : "null";
}

std::string text_of(const Evaluation& result) {
  std::string text = fmt::format("loss {:.4f}", result.loss);
  if (const auto bits = result.bits_per_byte())
    text += fmt::format(", {:.4f} bits per byte,", *bits);
  return text + fmt::format(" over {}\n", schedules::counted(result.tokens, "token"));
}

}  // namespace

int run(const EvalOptions& options) {
  const auto checkpoint = open_language_model(options.checkpoint);
  check_seq_len(options.seq_len, checkpoint->info().model);
  SignalWatch signals("");
  const std::vector<std::string> files = stages::expand_files(options.files);
  const std::string tokens =
      stages::prepare_tokens({.files = files, .tokenizer = checkpoint->tokenizer()}, token_cache(),
                             Tokenizing(signals).options());
  const stages::TokenCacheHold hold(tokens);
  const std::string name = fmt::format("{}", fmt::join(files, ", "));
  const Evaluation result =
      evaluate(options, *checkpoint, [&] { return stages::TokenFile::open(tokens, name); });
  print(options.json ? fmt::format("{{\"loss\": {}, \"bits_per_byte\": {}, \"tokens\": {}}}\n",
                                   exact(result.loss), exact(result.bits_per_byte()), result.tokens)
                     : text_of(result));
  return 0;
}

}  // namespace troupe::launch
