#include "stages/corpus/tokenizers/models/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "stages/corpus/tokenizers/text/utf8.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

/// How much worse than the worst token an unknown character is.
constexpr double kUnknownPenalty = 10.0;
constexpr std::int32_t kNoToken = -1;

std::uint64_t edge(std::int32_t node, char byte) {
  return static_cast<std::uint64_t>(node) << 8 | static_cast<unsigned char>(byte);
}

/// The score as Hugging Face's tokenizers have it. Their JSON reader (serde_json) rounds the digits
/// of a number to a double, and then their product with a power of ten, so that a number of 17
/// digits may be one unit in the last place off: enough to decide between divisions of equal sums.
double as_tokenizers_read(double score) {
  std::array<char, 32> text{};  // such as "4.125e+00"
  const char* const end = std::to_chars(text.data(), text.data() + text.size(), std::abs(score),
                                        std::chars_format::scientific)
                              .ptr;
  std::uint64_t digits = 0;
  int exponent = 0;
  const char* at = text.data();
  for (bool is_fraction = false; at != end && *at != 'e'; ++at) {
    if (*at == '.') {
      is_fraction = true;
      continue;
    }
    digits = 10 * digits + static_cast<std::uint64_t>(*at - '0');
    exponent -= is_fraction ? 1 : 0;
  }
  int power = 0;
  if (at != end) std::from_chars(at + (at[1] == '+' ? 2 : 1), end, power);
  exponent += power;
  double ten = 0;
  const std::string literal = fmt::format("1e{}", std::abs(exponent));
  std::from_chars(literal.data(), literal.data() + literal.size(), ten);
  if (!std::isfinite(ten) || ten == 0) return score;
  const auto number = static_cast<double>(digits);
  return std::copysign(exponent < 0 ? number / ten : number * ten, score);
}

}  // namespace

Unigram::Unigram(const JsonPart& part) {
  read_vocabulary(part.at("vocab"));
  if (const auto unknown = part.find("unk_id")) {
    if (unknown->integer() < 0 || unknown->integer() >= std::ssize(scores_))
      unknown->fail(fmt::format("must be an id below {}", scores_.size()));
    unknown_ = static_cast<std::int32_t>(unknown->integer());
  }
  unknown_score_ = std::ranges::min(scores_) - kUnknownPenalty;
  if (part.flag("byte_fallback", false)) byte_tokens_ = byte_tokens_of(vocabulary_);
}

void Unigram::read_vocabulary(const JsonPart& part) {
  if (!part.value().is_array()) part.fail("must be a list");
  if (part.value().empty()) part.fail("has no token");
  if (std::ssize(part.value()) > kMostTokens)
    part.fail(fmt::format("has more than {} tokens", kMostTokens));
  token_of_node_.push_back(kNoToken);
  for (const auto& entry : part.value()) {
    const auto id = static_cast<std::int32_t>(scores_.size());
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      part.fail(fmt::format("token {} must be [TEXT, SCORE]", id));
    const std::string token = entry[0].get<std::string>();
    if (!vocabulary_.emplace(token, id).second)
      part.fail(fmt::format("the token \"{}\" comes twice", token));
    scores_.push_back(as_tokenizers_read(entry[1].get<double>()));
    add_to_tree(token, id);
  }
}

void Unigram::add_to_tree(std::string_view token, std::int32_t id) {
  std::int32_t node = kRoot;
  for (const char byte : token) {
    const auto next = static_cast<std::int32_t>(token_of_node_.size());
    const auto [child, is_new] = children_.try_emplace(edge(node, byte), next);
    if (is_new) token_of_node_.push_back(kNoToken);
    node = child->second;
  }
  token_of_node_[static_cast<std::size_t>(node)] = id;
}

void Unigram::encode(std::string_view word, Scratch& scratch,
                     std::vector<std::int32_t>& ids) const {
  encode_cached(word, scratch, ids, [&] {
    const std::vector<Best> best = best_divisions(word);
    // From the end; unknown characters side by side are one token.
    std::vector<std::string_view> tokens;
    bool unknown_before = false;
    for (std::size_t end = word.size(); end > 0; end = best[end].begin) {
      const std::size_t begin = best[end].begin;
      const bool is_unknown = best[end].id == unknown_;
      if (is_unknown && unknown_before)
        tokens.back() = word.substr(begin, end - begin + tokens.back().size());
      else
        tokens.push_back(word.substr(begin, end - begin));
      unknown_before = is_unknown;
    }
    for (; !tokens.empty(); tokens.pop_back()) add_token(tokens.back(), scratch.ids);
  });
}

/// By byte of the word at which a division ends.
std::vector<Unigram::Best> Unigram::best_divisions(std::string_view word) const {
  std::vector<Best> best(word.size() + 1);
  for (std::size_t begin = 0; begin < word.size(); begin += first_char_bytes(word.substr(begin)))
    add_tokens_at(word, begin, best);
  return best;
}

/// Looks whether a token that begins here is the last of a better division.
void Unigram::add_tokens_at(std::string_view word, std::size_t begin,
                            std::vector<Best>& best) const {
  const double before = best[begin].score;
  const auto offer = [&](std::size_t end, double score, std::int32_t id) {
    Best& now = best[end];
    if (now.begin == kNowhere || score > now.score)
      now = {.score = score, .begin = begin, .id = id};
  };
  const std::size_t one = begin + first_char_bytes(word.substr(begin));
  bool has_one = false;
  std::int32_t node = kRoot;
  for (std::size_t end = begin; end < word.size();) {
    const auto child = children_.find(edge(node, word[end++]));
    if (child == children_.end()) break;
    node = child->second;
    const std::int32_t id = token_of_node_[static_cast<std::size_t>(node)];
    if (id == kNoToken) continue;
    offer(end, scores_[static_cast<std::size_t>(id)] + before, id);
    has_one |= end == one;
  }
  if (has_one) return;
  if (!unknown_)
    throw Error(ErrorKind::data,
                fmt::format("the tokenizer has no token for \"{}\", and none for what is unknown",
                            word.substr(begin, one - begin)));
  offer(one, unknown_score_ + before, *unknown_);
}

void Unigram::add_token(std::string_view token, std::vector<std::int32_t>& ids) const {
  if (const auto found = vocabulary_.find(token); found != vocabulary_.end())
    ids.push_back(found->second);
  else if (!byte_tokens_ || !add_byte_tokens(token, *byte_tokens_, ids))
    ids.push_back(unknown_.value());  // there is one: only it stands for what is no token
}

}  // namespace troupe::stages
