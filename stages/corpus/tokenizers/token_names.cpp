#include "stages/corpus/tokenizers/token_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "stages/corpus/tokenizers/models/vocabulary.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

/// Special tokens come first where two are found alike.
void order(std::vector<AddedToken>& tokens) {
  std::ranges::stable_partition(tokens, &AddedToken::special);
}

}  // namespace

// tokenizers counts the model's tokens; it does not look for the largest of their ids.
TokenNames::TokenNames(const Vocabulary& model, const std::optional<JsonPart>& added)
    : ids_(model), next_id_(static_cast<std::int32_t>(model.size())) {
  for (const auto& [name, id] : model) token_at(id).name = name;
  if (!added) return;
  for (const JsonPart& part : added->items()) add_own(part);
  order(added_);
}

void TokenNames::add_own(const JsonPart& part) {
  AddedToken token = read_added_token(part);
  const std::int64_t stated = part.at("id").integer();
  if (stated < 0 || stated >= kMostTokens)
    part.at("id").fail(fmt::format("must be an id below {}", kMostTokens));
  if (token.content.empty()) return;  // tokenizers passes over it
  token.id = id_for(token.content);
  const bool known = ids_.contains(token.content);
  if (token.id != stated)
    part.fail(fmt::format(
        "the token \"{}\" has the id {}, but it must be {}: {}", token.content, stated, token.id,
        known ? "the model has that token" : "added tokens follow the others in order"));
  const Token& entry = token_at(token.id);
  if (!known && !entry.name.empty())
    part.fail(fmt::format("the tokens \"{}\" and \"{}\" have the same id {}", token.content,
                          entry.name, token.id));
  if (entry.added) part.fail(fmt::format("the token \"{}\" is added twice", token.content));
  insert(std::move(token));
}

void TokenNames::add(const std::vector<TokenBeside>& tokens) {
  for (const TokenBeside& beside : tokens) {
    AddedToken token = beside.token;
    if (token.content.empty()) continue;
    token.id = id_for(token.content);
    if (const std::int64_t stated = beside.id.value_or(token.id); stated != token.id)
      throw Error(ErrorKind::data,
                  fmt::format("{}: the token \"{}\" has the id {} there, but in the tokenizer {}",
                              beside.place, token.content, stated, token.id));
    if (token.id >= kMostTokens)
      throw Error(ErrorKind::data,
                  fmt::format("{}: {} tokens are too many", beside.place, token.id));
    insert(std::move(token));
  }
  order(added_);
}

std::int32_t TokenNames::id_for(const std::string& content) const {
  const auto known = ids_.find(content);
  return known != ids_.end() ? known->second : next_id_;
}

void TokenNames::insert(AddedToken token) {
  ids_.emplace(token.content, token.id);
  next_id_ = std::max(next_id_, token.id + 1);
  Token& entry = token_at(token.id);
  const bool was_added = entry.added;
  entry = {.name = token.content, .added = true, .special = token.special};
  if (was_added)
    *std::ranges::find(added_, token.id, &AddedToken::id) = std::move(token);
  else
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
