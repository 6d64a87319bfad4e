#include "stages/inference/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tensor/errors/error.h"
#include "tensor/values/random.h"

namespace troupe::stages {

std::int32_t Sampler::operator()(std::span<const float> logits, const Draw& draw) {
  TROUPE_ASSERT(!logits.empty());
  const auto likeliest = std::ranges::max_element(logits);
  const bool is_number = std::ranges::none_of(logits, [](float x) { return std::isnan(x); });
  if (!is_number || std::isinf(*likeliest))
    throw Error(
        ErrorKind::internal,
        fmt::format("prompt {}: the logits of token {} are not finite, although all weights "
                    "are; the model computes beyond float32",
                    draw.prompt + 1, draw.position + 1));
  if (sampling_.temperature <= 0) return static_cast<std::int32_t>(likeliest - logits.begin());
  keep_top_k(logits);
  for (auto& [id, weight] : candidates_)
    weight = std::exp((logits[static_cast<std::size_t>(id)] - *likeliest) / sampling_.temperature);
  if (sampling_.top_p < 1) keep_top_p();
  const tensor::Random random = tensor::Random(sampling_.seed, "sample").part(draw.prompt);
  double left = random.uniform(draw.position) * total_weight();
  for (const auto& [id, weight] : candidates_) {
    left -= weight;
    if (left < 0) return id;
  }
  // Rounding left something over: the last token that has a probability.
  const auto last = std::find_if(candidates_.rbegin(), candidates_.rend(),
                                 [](const Candidate& c) { return c.weight > 0; });
  return last == candidates_.rend() ? static_cast<std::int32_t>(likeliest - logits.begin())
                                    : last->id;
}

void Sampler::keep_top_k(std::span<const float> logits) {
  float least = -std::numeric_limits<float>::infinity();
  if (sampling_.top_k > 0 && static_cast<std::size_t>(sampling_.top_k) < logits.size()) {
    sorted_.assign(logits.begin(), logits.end());
    const auto kth = sorted_.begin() + (sampling_.top_k - 1);
    std::nth_element(sorted_.begin(), kth, sorted_.end(), std::greater<>());
    least = *kth;
  }
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (logits[i] >= least) candidates_.push_back({static_cast<std::int32_t>(i), 0});
}

/// A token is left out if it and all less likely ones together have a probability of at most 1 -
/// top_p. That is so for all whose own is below (1 - top_p) / (number of tokens), which are told
/// apart first: the rest, which has to be sorted, is mostly short.
void Sampler::keep_top_p() {
  const double left_out = (1 - sampling_.top_p) * total_weight();
  const double least = left_out / static_cast<double>(candidates_.size());
  double unlikely = 0;
  likely_.clear();
  for (const Candidate& candidate : candidates_) {
    if (candidate.weight < least)
      unlikely += candidate.weight;
    else
      likely_.push_back(candidate);
  }
  // The least likely first, and of equals the one with the higher id.
  std::ranges::sort(likely_, [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight < b.weight : a.id > b.id;
  });
  auto first = likely_.begin();
  while (first + 1 < likely_.end() && (unlikely += first->weight) <= left_out) ++first;
  candidates_.assign(first, likely_.end());
  std::ranges::sort(candidates_, {}, &Candidate::id);
}

double Sampler::total_weight() const {
  double total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  return total;
}

}  // namespace troupe::stages
