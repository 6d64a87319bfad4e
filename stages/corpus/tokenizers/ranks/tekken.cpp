#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "stages/corpus/tokenizers/models/bpe.h"
#include "stages/corpus/tokenizers/other_files.h"
#include "stages/corpus/tokenizers/ranks/ranked_bpe.h"
#include "stages/corpus/tokenizers/ranks/ranked_tokenizer.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using nlohmann::json;

/// The control tokens of files that do not list them, those before version 7.
constexpr std::array<std::string_view, 14> kOldControlTokens{"<unk>",
                                                             "<s>",
                                                             "</s>",
                                                             "[INST]",
                                                             "[/INST]",
                                                             "[AVAILABLE_TOOLS]",
                                                             "[/AVAILABLE_TOOLS]",
                                                             "[TOOL_RESULTS]",
                                                             "[/TOOL_RESULTS]",
                                                             "[TOOL_CALLS]",
                                                             "[IMG]",
                                                             "<pad>",
                                                             "[IMG_BREAK]",
                                                             "[IMG_END]"};

std::int32_t count_of(const JsonPart& part) {
  if (part.integer() < 0 || part.integer() >= kMostTokens)
    part.fail(fmt::format("must be a number below {}", kMostTokens));
  return static_cast<std::int32_t>(part.integer());
}

/// The names of the control tokens by their ids, which are below `count`.
std::vector<std::string> read_control_tokens(const JsonPart& file, std::int32_t count) {
  std::vector<std::string> names;
  for (std::int32_t id = 0; id < count; ++id) names.push_back(fmt::format("<SPECIAL_{}>", id));
  const auto listed = file.find("special_tokens");
  if (!listed) {
    const std::size_t known = std::min(names.size(), kOldControlTokens.size());
    std::copy_n(kOldControlTokens.begin(), known, names.begin());
    return names;
  }
  for (const JsonPart& token : listed->items()) {
    const std::int32_t id = count_of(token.at("rank"));
    if (id >= count)
      token.at("rank").fail(
          fmt::format("is not below the {} of config.default_num_special_tokens", count));
    names[static_cast<std::size_t>(id)] = token.at("token_str").text();
  }
  return names;
}

/// The first `count` tokens, in the order of their ranks.
std::vector<std::string> read_tokens(const JsonPart& vocabulary, std::int32_t count) {
  std::vector<std::string> tokens;
  const json& list = vocabulary.value();
  if (std::ssize(list) < count)
    vocabulary.fail(
        fmt::format("has {} tokens, fewer than the {} that config asks for", list.size(), count));
  for (const json& entry : list) {
    if (std::ssize(tokens) == count) break;
    const auto refuse = [&](std::string_view why) {
      vocabulary.fail(fmt::format("token {}: {}", tokens.size(), why));
    };
    if (!entry.is_object()) refuse("must be an object");
    const json rank = entry.value("rank", json()), text = entry.value("token_bytes", json());
    if (rank != tokens.size()) refuse("its rank must be its place in the list");
    if (!text.is_string()) refuse("\"token_bytes\" must be a text");
    auto bytes = bytes_of_base64(text.get_ref<const std::string&>());
    if (!bytes) refuse("\"token_bytes\" is no base64");
    tokens.push_back(std::move(*bytes));
  }
  return tokens;
}

}  // namespace

bool is_tekken(const json& content) {
  return content.is_object() && content.contains("config") && content.contains("vocab") &&
         content["vocab"].is_array();
}

std::unique_ptr<Tokenizer> read_tekken(const JsonPart& file, const TokenizerConfig& beside) {
  const JsonPart config = file.at("config"), vocabulary = file.at("vocab");
  const std::int32_t all = count_of(config.at("default_vocab_size")),
                     control = count_of(config.at("default_num_special_tokens"));
  if (control > all) config.fail("default_num_special_tokens is more than default_vocab_size");
  RankedTokens ranked{.tokens = read_tokens(vocabulary, all - control), .first_id = control};
  for (std::string& name : read_control_tokens(file, control))
    ranked.special.push_back({.content = std::move(name),
                              .id = static_cast<std::int32_t>(ranked.special.size()),
                              .special = true});
  ranked.pattern = config.at("pattern").text();
  return make_ranked_tokenizer(ranked, beside, file.where());
}

}  // namespace troupe::stages
