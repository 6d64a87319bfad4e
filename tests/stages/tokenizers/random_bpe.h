#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "stages/corpus/tokenizers/models/bpe_model.h"
#include "tests/support/mutate.h"

namespace troupe::test {

/// A random model over a few letters: their ids are 0 ... num_letters-1, and each merge is of two
/// tokens that were made before.
struct RandomBpe {
  static constexpr std::string_view kLetters = "abcd \n";
  std::size_t num_letters = kLetters.size();
  stages::BpeModel model;

  explicit RandomBpe(std::mt19937_64& random) {
    std::vector<std::string> tokens;
    for (const char letter : kLetters) tokens.emplace_back(1, letter);
    for (std::size_t i = 0, merges = 1 + below(random, 30); i < merges; ++i) {
      const std::size_t left = below(random, tokens.size()), right = below(random, tokens.size());
      const std::string joined = tokens[left] + tokens[right];
      auto result = static_cast<std::size_t>(std::find(tokens.begin(), tokens.end(), joined) -
                                             tokens.begin());
      if (result == tokens.size()) tokens.push_back(joined);
      model.merges.push_back({static_cast<std::int32_t>(left), static_cast<std::int32_t>(right),
                              static_cast<std::int32_t>(result)});
    }
    for (std::size_t id = 0; id < tokens.size(); ++id)
      model.vocabulary.emplace(tokens[id], static_cast<std::int32_t>(id));
  }

  std::string text(std::mt19937_64& random, std::size_t length) const {
    std::string text(length, ' ');
    for (char& c : text) c = kLetters[below(random, kLetters.size())];
    return text;
  }
};

/// The algorithm in its plainest form: again and again, of all pairs of neighbours the leftmost
/// that has the lowest rank. Of equal merges the last one counts.
inline std::vector<std::int32_t> plain_merge(std::vector<std::int32_t> ids,
                                             const std::vector<stages::BpeModel::Merge>& merges) {
  const auto rank_of = [&merges](std::int32_t left, std::int32_t right) {
    std::size_t rank = merges.size();
    for (std::size_t i = 0; i < merges.size(); ++i)
      if (merges[i].left == left && merges[i].right == right) rank = i;
    return rank;
  };
  while (true) {
    std::size_t best = merges.size(), place = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i)
      if (const std::size_t rank = rank_of(ids[i], ids[i + 1]); rank < best) best = rank, place = i;
    if (best == merges.size()) return ids;
    ids[place] = merges[best].result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

}  // namespace troupe::test
