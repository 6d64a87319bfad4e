#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/commands/models/evaluation.h"
#include "launch/commands/models/inference.h"
#include "launch/commands/options.h"
#include "launch/host/console.h"
#include "launch/host/progress_line.h"
#include "launch/manifest/inputs/corpus.h"
#include "launch/manifest/resolve/tokenizing.h"
#include "schedules/plan/counted.h"
#include "stages/corpus/token_data.h"
#include "stages/files/checkpoint/checkpoint.h"
#include "tensor/device/ops.h"
#include "tensor/errors/error.h"

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

/// Sums up what single steps have.
class Sums {
 public:
  Sums(const stages::Tokenizer& tokenizer, std::int64_t seq_len)
      : tokenizer_(tokenizer), seq_len_(seq_len) {}

  void add(double loss, std::span<const std::int32_t> ids, std::span<const std::int32_t> targets,
           const stages::DocumentRows& documents) {
    loss_ += loss;
    tokens_ += std::ssize(targets) - std::ranges::count(targets, tensor::kNoTarget);
    const auto add_bytes_of = [&](std::int64_t begin, std::int64_t end) {
      const auto first = static_cast<std::size_t>(begin);
      const auto rows = static_cast<std::size_t>(end - begin);
      add_bytes(ids.subspan(first, rows), targets.subspan(first, rows));
    };
    if (documents.starts.empty())
      for (std::int64_t row = 0; row < std::ssize(targets); row += seq_len_)
        add_bytes_of(row, row + seq_len_);
    for (std::size_t i = 1; i < documents.starts.size(); ++i)
      add_bytes_of(documents.starts[i - 1], documents.starts[i]);
  }
  Evaluation evaluation() const {
    return {.loss = loss_ / static_cast<double>(tokens_), .tokens = tokens_, .bytes = bytes_};
  }

 private:
  /// Adds the bytes of text in the targets of a document, or of a sample of joined ones. Those that
  /// do not count divide it.
  void add_bytes(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets) {
    const auto counts = [](std::int32_t target) { return target != tensor::kNoTarget; };
    for (auto begin = std::ranges::find_if(targets, counts); bytes_ && begin != targets.end();) {
      const auto end = std::find_if_not(begin, targets.end(), counts);
      ids_.assign(1, inputs[static_cast<std::size_t>(begin - targets.begin())]);
      ids_.insert(ids_.end(), begin, end);
      if (std::ranges::max(ids_) < tokenizer_.vocab_size())
        // How a token is decoded may depend on whether there is one before it.
        *bytes_ += std::ssize(tokenizer_.decode(ids_)) -
                   std::ssize(tokenizer_.decode(std::span(ids_).first(1)));
      else
        bytes_.reset();
      begin = std::find_if(end, targets.end(), counts);
    }
  }

  const stages::Tokenizer& tokenizer_;
  const std::int64_t seq_len_;
  std::vector<std::int32_t> ids_;  ///< targets that follow each other, and the input before them
  double loss_ = 0;
  std::int64_t tokens_ = 0;
  std::optional<std::int64_t> bytes_ = 0;
};

/// How text becomes samples, and which of their tokens count.
struct Samples {
  stages::Documents documents = stages::Documents::joined;
  stages::LossOn loss_on = stages::LossOn::all;
  stages::TextRules rules;
};

/// The value of this name, which is one of `names`.
template <typename Enum, std::size_t n>
Enum named(const std::array<std::string_view, n>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    throw Error(ErrorKind::data, fmt::format("the checkpoint was trained with '{}', which is none "
                                             "of {}",
                                             name, fmt::join(names, ", ")));
  return Enum(found - names.begin());
}

/// What the options say, and else what the checkpoint was trained on.
Samples samples_of(const EvalOptions& options, const stages::CheckpointInfo& info) {
  const stages::Training training = info.training.value_or(stages::Training{});
  const Samples samples{
      .documents = named<stages::Documents>(stages::kDocumentsNames,
                                            options.documents.value_or(training.documents)),
      .loss_on =
          named<stages::LossOn>(stages::kLossOnNames, options.loss_on.value_or(training.loss_on)),
      .rules = {.bos = options.bos.value_or(training.bos),
                .end_of_document = options.end_of_document.value_or(training.end_of_document)}};
  if (samples.loss_on == stages::LossOn::response && samples.documents == stages::Documents::joined)
    refuse(
        "a loss on responses needs samples that are documents, each with its prompt; "
        "--documents packed");
  return samples;
}

/// The token file of the text.
std::string prepare(const EvalOptions& options, const std::vector<std::string>& files,
                    const std::string& tokenizer, const Samples& samples,
                    SignalWatch& signals) try {
  for (const std::string& file : files)
    if (stages::is_indexed_dataset(file)) stages::verify_dataset(file);
  return stages::prepare_tokens({.files = files,
                                 .tokenizer = tokenizer,
                                 .loss_on = samples.loss_on,
                                 .documents = samples.documents,
                                 .rules = samples.rules},
                                token_cache(), Tokenizing(signals).options());
} catch (const Error& error) {
  const bool follows_training = samples.loss_on == stages::LossOn::response && !options.loss_on;
  if (!follows_training || error.kind() != ErrorKind::data) throw;
  throw Error(ErrorKind::data, fmt::format("{}; the checkpoint was trained on responses: --loss-on "
                                           "all takes every token",
                                           error.what()));
}

/// The samples of the text, each read at most once. `tokens` is the text's token file.
EvaluationWork work_of(const EvalOptions& options, const stages::CheckpointInfo& info,
                       stages::Documents documents, const std::string& tokens,
                       const std::string& name) {
  EvaluationWork work{.tokens = tokens,
                      .name = name,
                      .documents = documents,
                      .seq_len = options.seq_len > 0 ? options.seq_len : info.seq_len};
  work.samples = work.feed(info.model)->num_samples();
  work.micro = std::min(work.samples, kSamplesPerStep);
  work.steps = std::min(options.steps, (work.samples + work.micro - 1) / work.micro);
  return work;
}

/// The mean loss over the samples, by all ranks.
Evaluation evaluate(const EvalOptions& options, const stages::CheckpointReader& checkpoint,
                    const EvaluationWork& work, LeadingRank& rank) {
  const auto tokenizer = stages::Tokenizer::open(checkpoint.tokenizer());
  Sums sums(*tokenizer, work.seq_len);
  const auto add = [&](std::int64_t step, double loss, const actors::StepTokens& tokens) {
    if (!std::isfinite(loss))
      throw Error(
          ErrorKind::internal,
          fmt::format("the loss of samples {} to {} of the text is {}, although all weights "
                      "are finite; the model computes beyond float32",
                      step * work.micro + 1, std::min((step + 1) * work.micro, work.samples),
                      loss));
    sums.add(loss, tokens.ids(0), tokens.targets(0), tokens.documents(0));
  };
  rank.run([&] {
    evaluate_part(
        rank.own(), work, checkpoint,
        [&](const actors::StageMessages& messages) { return rank.join(messages); },
        options.json ? nullptr : progress_line("loading weights,"), add);
  });
  return sums.evaluation();
}

/// Refuses shards that cannot each send an equal part of what a stage has computed.
void check_edges(const EvalOptions& options, const stages::ModelConfig& model,
                 const EvaluationWork& work) {
  const std::int64_t numbers = work.micro * work.seq_len * model.hidden_size;
  if (options.pp == 1 || numbers % options.tp == 0) return;
  int nearest = options.tp;
  while (numbers % nearest != 0 || !check_parts(model, options.pp, nearest).empty()) --nearest;
  refuse(
      fmt::format("--tp {} cannot divide the {} numbers of a step between stages; nearest: --tp {}",
                  options.tp, numbers, nearest));
}

/// A model with learned positions has no place for longer samples.
void check_seq_len(std::int64_t seq_len, const stages::ModelConfig& model) {
  if (stages::traits_of(model.kind).learns_positions && seq_len > model.max_position_embeddings)
    refuse(fmt::format("--seq-len {}: the model has {}", seq_len,
                       schedules::counted(model.max_position_embeddings, "position")));
}

std::string text_of(const Evaluation& result, const Samples& samples) {
  std::string text = fmt::format("loss {:.4f}", result.loss);
  if (const auto bits = result.bits_per_byte())
    text += fmt::format(", {:.4f} bits per byte,", *bits);
  text += fmt::format(" over {}", schedules::counted(result.tokens, "token"));
  if (samples.loss_on == stages::LossOn::response) text += " of responses";
  if (samples.documents != stages::Documents::joined)
    text += fmt::format(" in {} documents", name_of(samples.documents));
  return text + '\n';
}

std::string json_of(const Evaluation& result, const Samples& samples) {
  const auto bits = result.bits_per_byte();
  const nlohmann::ordered_json json{
      {"loss", result.loss},
      {"bits_per_byte", bits ? nlohmann::ordered_json(*bits) : nlohmann::ordered_json(nullptr)},
      {"tokens", result.tokens},
      {"documents", std::string(name_of(samples.documents))},
      {"loss_on", std::string(name_of(samples.loss_on))}};
  return json.dump() + '\n';
}

}  // namespace

int run(const EvalOptions& options) {
  const auto ucx = prepare_ranks(options.pp * options.tp);
  const std::string directory = model_directory(options.checkpoint);
  const auto checkpoint = open_language_model(directory);
  const stages::ModelConfig& model = checkpoint->info().model;
  check_seq_len(options.seq_len, model);
  if (const std::string why = check_parts(model, options.pp, options.tp); !why.empty()) refuse(why);
  const Samples samples = samples_of(options, checkpoint->info());
  SignalWatch signals("");
  const std::vector<std::string> files = stages::expand_files(options.files);
  const std::string tokens = prepare(options, files, checkpoint->tokenizer(), samples, signals);
  const stages::TokenCacheHold hold(tokens);
  const EvaluationWork work = work_of(options, checkpoint->info(), samples.documents, tokens,
                                      fmt::format("{}", fmt::join(files, ", ")));
  check_edges(options, model, work);
  LeadingRank rank({.checkpoint = directory,
                    .device = options.device,
                    .threads = std::max(1, threads_of(options.threads) / options.tp),
                    .pp = options.pp,
                    .tp = options.tp},
                   ucx, kEvaluation, work);
  const Evaluation result = evaluate(options, *checkpoint, work, rank);
  print(options.json ? json_of(result, samples) : text_of(result, samples));
  return 0;
}

}  // namespace troupe::launch
