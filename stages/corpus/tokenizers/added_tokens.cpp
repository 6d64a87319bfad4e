#include "stages/corpus/tokenizers/added_tokens.h"

#include <algorithm>

#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::stages {

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens, const Normalizer& normalizer) {
  for (const AddedToken& token : tokens) {
    if (token.normalized)
      normalized_.add(normalizer.apply(token.content, Place::start), token);
    else
      raw_.add(token.content, token);
  }
}

void AddedTokens::Finder::add(std::string_view pattern, const AddedToken& token) {
  if (pattern.empty()) return;
  begins_[static_cast<unsigned char>(pattern[0])] = true;
  std::size_t node = 0;
  for (const char byte : pattern) {
    const auto [child, is_new] = nodes_[node].children.try_emplace(byte, nodes_.size());
    node = child->second;
    if (is_new) nodes_.emplace_back();
  }
  if (nodes_[node].token) return;  // of equal patterns the first counts
  longest_ = std::max(longest_, pattern.size());
  nodes_[node].token = tokens_.size();
  tokens_.push_back(token);
}

std::optional<AddedTokens::Finder::Match> AddedTokens::Finder::longest_at(std::string_view text,
                                                                          std::size_t begin) const {
  std::optional<Match> longest;
  std::size_t node = 0;
  for (std::size_t at = begin; at < text.size(); ++at) {
    const auto child = nodes_[node].children.find(text[at]);
    if (child == nodes_[node].children.end()) break;
    node = child->second;
    if (nodes_[node].token) longest = {.end = at + 1, .token = *nodes_[node].token};
  }
  return longest;
}

bool AddedTokens::Finder::touches_word(std::string_view before, std::string_view after) const {
  return (!before.empty() &&
          !word_.matches(before.substr(before.size() - last_char_bytes(before))).empty()) ||
         (!after.empty() && !word_.matches(after.substr(0, first_char_bytes(after))).empty());
}

std::vector<Section> AddedTokens::Finder::split(std::string_view text) const {
  std::vector<Section> sections;
  std::size_t done = 0;
  const auto add_text = [&](std::size_t end) {
    if (end > done) sections.push_back({.text = text.substr(done, end - done), .token = {}});
  };
  for (std::size_t at = 0; at < text.size();) {
    const auto match =
        begins_[static_cast<unsigned char>(text[at])] ? longest_at(text, at) : std::nullopt;
    if (!match) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[match->token];
    const std::string_view before = text.substr(0, at), after = text.substr(match->end);
    at = match->end;
    if (token.single_word && touches_word(before, after)) continue;
    const std::size_t begin =
        token.lstrip ? std::max(without_back(before, is_white_space).size(), done) : before.size();
    add_text(begin);
    done = token.rstrip ? text.size() - without_front(after, is_white_space).size() : match->end;
    // Two tokens that strip may share white space, of which nothing is left for the second: then
    // tokenizers drops it.
    if (begin < done)
      sections.push_back({.text = text.substr(begin, done - begin), .token = token.id});
  }
  add_text(text.size());
  return sections;
}

// A token that takes a newline with it would end a section where the text was cut.
bool AddedTokens::Finder::allows_cuts() const {
  return std::ranges::none_of(tokens_, [](const AddedToken& token) {
    return token.lstrip || token.rstrip || token.content.find('\n') != std::string::npos;
  });
}

// Nor may a token depend on what is beside it.
bool AddedTokens::Finder::allows_word_cuts() const {
  return std::ranges::none_of(tokens_, [](const AddedToken& token) {
    return token.lstrip || token.rstrip || token.single_word;
  });
}

}  // namespace troupe::stages
