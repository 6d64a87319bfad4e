#include "stages/inference/completions.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace troupe::stages {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

Completions::Completions(LanguageModel& model, const Tokenizer& tokenizer, const Sampling& sampling,
                         CompletionOptions options)
    : model_(model), tokenizer_(tokenizer), sampler_(sampling), options_(std::move(options)) {}

std::vector<Completion> Completions::operator()(std::span<const std::vector<std::int32_t>> prompts,
                                                std::uint64_t first_number) {
  auto begin = Clock::now();
  std::span<const float> logits = model_.prefill(prompts);
  prefill_.seconds += seconds_since(begin);
  for (const auto& prompt : prompts) prefill_.tokens += static_cast<std::int64_t>(prompt.size());

  begin = Clock::now();
  const std::size_t vocabulary = logits.size() / prompts.size();
  // A model may have more rows than its tokenizer has tokens; these are never drawn.
  const std::size_t known = std::min(vocabulary, static_cast<std::size_t>(tokenizer_.vocab_size()));
  std::vector<Completion> completions(prompts.size());
  std::vector<std::int32_t> next(prompts.size(), 0);  // -1: the completion has ended
  for (std::uint64_t position = 0;; ++position) {
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      if (next[i] < 0) continue;
      next[i] = sampler_(logits.subspan(i * vocabulary, known),
                         {.prompt = first_number + i, .position = position});
      if (append(next[i], prompts[i], completions[i])) next[i] = -1;
    }
    const auto unfinished = std::ranges::count_if(next, [](std::int32_t id) { return id >= 0; });
    if (unfinished == 0) break;
    logits = model_.decode(next);
    decode_.tokens += unfinished;
  }
  decode_.seconds += seconds_since(begin);
  return completions;
}

bool Completions::append(std::int32_t token, const std::vector<std::int32_t>& prompt,
                         Completion& completion) const {
  std::vector<std::int32_t>& ids = completion.ids;
  ids.push_back(token);
  const bool ends = std::ranges::find(options_.ends, token) != options_.ends.end();
  const bool is_last = ends || static_cast<std::int64_t>(ids.size()) == options_.tokens;
  if (ends) completion.finish = Completion::Finish::stop;
  if (!is_last && options_.stops.empty()) return false;
  completion.text = text_after(prompt, std::span(ids).first(ids.size() - (ends ? 1 : 0)));
  std::size_t stop = std::string::npos;
  for (const std::string& text : options_.stops) stop = std::min(stop, completion.text.find(text));
  if (stop == std::string::npos) return is_last;
  completion.text.resize(stop);
  completion.finish = Completion::Finish::stop;
  return true;
}

/// What the tokens add to the prompt's text. A token may have another text where one begins.
std::string Completions::text_after(const std::vector<std::int32_t>& prompt,
                                    std::span<const std::int32_t> ids) const {
  std::vector<std::int32_t> all = prompt;
  all.insert(all.end(), ids.begin(), ids.end());
  const std::string before = tokenizer_.decode(prompt), whole = tokenizer_.decode(all);
  return valid_utf8(whole.starts_with(before) ? whole.substr(before.size())
                                              : tokenizer_.decode(ids));
}

}  // namespace troupe::stages
