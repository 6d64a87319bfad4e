#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::stages {

/// How a token is drawn from the logits of a model, by the names of Hugging Face's generation
/// config. What is left out is decided in this order.
struct Sampling {
  double temperature = 1;  ///< logits are divided by it; 0: the likeliest token is taken
  /// Only tokens whose logit is at least that of the k-th likeliest; 0: all.
  std::int64_t top_k = 0;
  /// Among these the likeliest that together have at least this probability, one at least (nucleus
  /// sampling, arXiv 1904.09751); 1: all.
  double top_p = 1;
  std::uint64_t seed = 1;
};

/// Where a token is drawn: the number of its prompt, and that of the token after the prompt.
struct Draw {
  std::uint64_t prompt = 0;
  std::uint64_t position = 0;
};

/// Draws tokens. Which one is a pure function of logits, sampling and place.
class Sampler {
 public:
  explicit Sampler(const Sampling& sampling) : sampling_(sampling) {}

  /// The id of a token by its logits, at least one. At temperature 0 the first of the likeliest.
  /// Throws Error{internal} if one is not a number or infinite, or none has a probability: even
  /// weights that are finite may compute beyond float32.
  std::int32_t operator()(std::span<const float> logits, const Draw& draw);

 private:
  struct Candidate {
    std::int32_t id;
    double weight;  ///< its probability times a number that is the same for all
  };

  void keep_top_k(std::span<const float> logits);
  void keep_top_p();
  double total_weight() const;

  const Sampling sampling_;
  std::vector<Candidate> candidates_;  ///< in ascending order of ids
  std::vector<float> sorted_;          ///< memory of keep_top_k()
  std::vector<Candidate> likely_;      ///< memory of keep_top_p()
};

}  // namespace troupe::stages
