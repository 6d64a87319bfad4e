#include "stages/corpus/tokenizers/tokens_beside.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

namespace troupe::stages {
namespace {

using nlohmann::json;

constexpr const char* kDecoder = "added_tokens_decoder";
constexpr std::string_view kEnding = "_token";
/// Whether a member is the name of a token, and not a flag as "add_bos_token".
bool is_name(std::string_view member, const json& value) {
  return member.ends_with(kEnding) && (value.is_string() || value.is_object());
}

/// A special token by its text, or by its properties.
AddedToken read_special(const JsonPart& part) {
  if (!part.value().is_object()) return {.content = part.text(), .special = true};
  AddedToken token = read_added_token(part);
  token.normalized = part.flag("normalized", false);
  return token;
}

/// Collects the tokens of one configuration.
class Collector {
 public:
  Collector(const TokenizerConfig& config, const std::vector<AddedToken>& own) : config_(config) {
    for (const AddedToken& token : own) known_.insert(token.content);
    read_named();
    read_extra();
    add_numbered(own);
    for (auto* tokens : {&named_, &extra_})
      for (TokenBeside token : *tokens) {
        if (known_.contains(token.token.content)) continue;
        token.token.special |= is_in(named_, token.token.content);
        tokens_.push_back(std::move(token));  // of a token that is given twice the last counts
      }
  }

  std::vector<TokenBeside> tokens() && { return std::move(tokens_); }

 private:
  using ById = std::map<std::int64_t, TokenBeside>;

  JsonPart part_of(const json& value, const std::string& member) const {
    return JsonPart(fmt::format("{}: {}", config_.path().string(), member), value);
  }
  static TokenBeside special(const JsonPart& part) {
    return {.token = read_special(part), .id = {}, .place = part.where()};
  }

  void read_named() {
    for (const char* name : kSpecialTokens)
      if (const json value = config_.member(name); !value.is_null())
        named_.push_back(special(part_of(value, name)));
    for (const auto& [name, given] : config_.members().items())
      if (const json value(given);
          std::ranges::find(kSpecialTokens, name) == kSpecialTokens.end() && is_name(name, value))
        named_.push_back(special(part_of(value, name)));
  }

  /// The older name of the list counts only without the newer. An object gives tokens names.
  void read_extra() {
    for (const char* member : {kExtraTokens, kAdditionalTokens}) {
      const json list = config_.member(member);
      if (list.is_null() || list.empty()) continue;
      if (list.is_object())
        for (const auto& [name, given] : config_.members()[member].items()) {
          const json value(given);
          named_.push_back(special(part_of(value, fmt::format("{}.{}", member, name))));
        }
      else
        for (const JsonPart& part : part_of(list, member).items()) extra_.push_back(special(part));
      return;
    }
  }

  /// Adds tokens that have an id, in its order; and those of the tokenizer's own file if they get
  /// a name.
  void add_numbered(const std::vector<AddedToken>& own) {
    ById by_id;
    const json decoder = config_.member(kDecoder);
    if (!decoder.is_null() && !decoder.is_object())
      part_of(decoder, kDecoder).fail("must be an object");
    for (const auto& [id, token] : decoder.items()) {
      const JsonPart part = part_of(token, fmt::format("{}.{}", kDecoder, id));
      std::int64_t number = 0;
      const char* end = id.data() + id.size();
      if (std::from_chars(id.data(), end, number).ptr != end) part.fail("its name must be an id");
      by_id[number] = {.token = read_added_token(part), .id = number, .place = part.where()};
    }
    for (const auto& [name, value] : config_.added_tokens().items())
      add_of_older(name, value, by_id);
    if (decoder.is_null())
      for (const AddedToken& token : own) {
        TokenBeside& numbered = by_id[token.id];
        if (numbered.id && numbered.token.content != token.content)
          continue;  // it is refused later
        numbered = {.token = token, .id = token.id, .place = config_.path().string()};
      }
    for (auto& [id, token] : by_id) {
      known_.insert(token.token.content);
      token.token.special |= is_in(named_, token.token.content);
      tokens_.push_back(std::move(token));
    }
  }
  /// A token of added_tokens.json.
  void add_of_older(const std::string& name, const json& id, ById& by_id) const {
    const std::string file = (config_.path().parent_path() / kAddedTokensFile).string();
    const JsonPart part(fmt::format("{}: {}", file, name), id);
    const bool listed =
        !config_.special_tokens_map().contains(kAdditionalTokens) && is_in(extra_, name);
    const bool special = is_in(named_, name) || listed;
    by_id[part.integer()] = {.token = {.content = name, .normalized = !special, .special = special},
                             .id = part.integer(),
                             .place = part.where()};
  }

  static bool is_in(const std::vector<TokenBeside>& tokens, const std::string& content) {
    return std::ranges::any_of(
        tokens, [&](const TokenBeside& token) { return token.token.content == content; });
  }

  const TokenizerConfig& config_;
  std::vector<TokenBeside> named_, extra_;
  std::set<std::string> known_;  ///< contents
  std::vector<TokenBeside> tokens_;
};

}  // namespace

AddedToken read_added_token(const JsonPart& part) {
  const bool special = part.flag("special", false);
  return {.content = part.at("content").text(),
          .single_word = part.flag("single_word", false),
          .lstrip = part.flag("lstrip", false),
          .rstrip = part.flag("rstrip", false),
          .normalized = part.flag("normalized", !special),
          .special = special};
}

std::vector<AddedToken> found_in_text(std::vector<AddedToken> tokens,
                                      const TokenizerConfig& config) {
  if (config.is_set("split_special_tokens")) std::erase_if(tokens, &AddedToken::special);
  return tokens;
}

std::vector<TokenBeside> tokens_beside(const TokenizerConfig& config,
                                       const std::vector<AddedToken>& own) {
  return Collector(config, own).tokens();
}

std::int64_t count_named_from(const Tokenizer& tokenizer, std::int64_t first) {
  if (files_beside(tokenizer.name()).empty()) return 0;
  const TokenizerConfig config(std::filesystem::path(tokenizer.name()).parent_path());
  std::set<std::int32_t> ids;
  for (const TokenBeside& beside : tokens_beside(config, {}))
    if (const auto id = tokenizer.id_of(beside.token.content); id && *id >= first) ids.insert(*id);
  return std::ssize(ids);
}

}  // namespace troupe::stages
