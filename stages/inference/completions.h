#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stages/corpus/token_data.h"
#include "stages/inference/language_model.h"
#include "stages/inference/sampling.h"

namespace troupe::stages {

struct CompletionOptions {
  std::int64_t tokens = 1;         ///< the most that are drawn for a prompt, at least one
  std::vector<std::int32_t> ends;  ///< tokens after which a text ends
  std::vector<std::string> stops;  ///< texts before which it ends
};

/// What a model writes after a prompt.
struct Completion {
  enum class Finish {
    length,  ///< it has as many tokens as were asked for
    stop,    ///< a token or a text has ended it
  };
  std::vector<std::int32_t> ids;  ///< all that were drawn, with the one that ended it
  std::string text;  ///< theirs, well-formed UTF-8, without the end token and from a stop text on
  Finish finish = Finish::length;
};

/// Tokens, and how long they took.
struct TokenRate {
  std::int64_t tokens = 0;
  double seconds = 0;
  double per_second() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
};

/// Draws texts for batches of prompts.
class Completions {
 public:
  /// Model and tokenizer outlive the object.
  Completions(LanguageModel& model, const Tokenizer& tokenizer, const Sampling& sampling,
              CompletionOptions options);

  /// Continues one batch of prompts, whose numbers among all prompts, of which draws depend, are
  /// first_number, first_number + 1, ...
  std::vector<Completion> operator()(std::span<const std::vector<std::int32_t>> prompts,
                                     std::uint64_t first_number);

  /// Tokens of the prompts of all calls so far, and tokens that were computed after them, one for
  /// each sequence at once.
  const TokenRate& prefill() const { return prefill_; }
  const TokenRate& decode() const { return decode_; }

 private:
  /// Appends a token. Returns whether it is the last one.
  bool append(std::int32_t token, const std::vector<std::int32_t>& prompt,
              Completion& completion) const;
  std::string text_after(const std::vector<std::int32_t>& prompt,
                         std::span<const std::int32_t> ids) const;

  LanguageModel& model_;
  const Tokenizer& tokenizer_;
  Sampler sampler_;
  const CompletionOptions options_;
  TokenRate prefill_, decode_;
};

}  // namespace troupe::stages
