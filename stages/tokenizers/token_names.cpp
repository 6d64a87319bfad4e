#include "stages/tokenizers/token_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "stages/tokenizers/bpe_model.h"

namespace troupe::stages {
namespace {

AddedToken read_token(const JsonPart& part) {
  const std::int64_t id = part.at("id").integer();
  if (id < 0 || id >= kMostTokens)
    part.at("id").fail(fmt::format("must be an id below {}", kMostTokens));
  const bool special = part.flag("special", false);
  return {.content = part.at("content").text(),
          .id = static_cast<std::int32_t>(id),
          .single_word = part.flag("single_word", false),
          .lstrip = part.flag("lstrip", false),
          .rstrip = part.flag("rstrip", false),
          .normalized = part.flag("normalized", !special),
          .special = special};
}

}  // namespace

TokenNames::TokenNames(const Vocabulary& model, const std::optional<JsonPart>& added)
    : ids_(model) {
  for (const auto& [name, id] : model) token_at(id).name = name;
  // tokenizers counts the model's tokens; it does not look for the largest of their ids.
  auto next_id = static_cast<std::int32_t>(model.size());
  if (!added) return;
  for (const JsonPart& part : added->items()) {
    add(part, next_id);
    if (!added_.empty()) next_id = std::max(next_id, added_.back().id + 1);
  }
  std::ranges::stable_partition(added_, &AddedToken::special);
}

void TokenNames::add(const JsonPart& part, std::int32_t next_id) {
  AddedToken token = read_token(part);
  if (token.content.empty()) return;  // tokenizers passes over it
  const auto known = ids_.find(token.content);
  const std::int32_t id = known != ids_.end() ? known->second : next_id;
  if (token.id != id)
    part.fail(fmt::format("the token \"{}\" has the id {}, but it must be {}: {}", token.content,
                          token.id, id,
                          known != ids_.end() ? "the model has that token"
                                              : "added tokens follow the others in order"));
  Token& entry = token_at(id);
  if (known == ids_.end() && !entry.name.empty())
    part.fail(fmt::format("the tokens \"{}\" and \"{}\" have the same id {}", token.content,
                          entry.name, id));
  if (entry.added) part.fail(fmt::format("the token \"{}\" is added twice", token.content));
  ids_.emplace(token.content, id);
  entry = {.name = token.content, .added = true, .special = token.special};
  added_.push_back(std::move(token));
}

TokenNames::Token& TokenNames::token_at(std::int32_t id) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= tokens_.size()) tokens_.resize(index + 1);
  return tokens_[index];
}

std::optional<std::int32_t> TokenNames::id_of(std::string_view name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace troupe::stages
