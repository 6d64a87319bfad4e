#include "stages/corpus/tokenizers/ranks/ranked_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "stages/corpus/tokenizers/frame_beside.h"
#include "stages/corpus/tokenizers/models/bpe.h"
#include "stages/corpus/tokenizers/ranks/ranked_bpe.h"
#include "stages/corpus/tokenizers/tokens_beside.h"
#include "stages/corpus/tokenizers/word_tokenizer.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using nlohmann::json;

/// Adds the tokens that files beside it name. An id that they say holds, if no token of the model
/// has it.
void add_beside(const RankedTokens& ranked, const TokenizerConfig& beside, TokenNames& names,
                std::vector<AddedToken>& found) {
  const std::int64_t end = ranked.first_id + std::ssize(ranked.tokens);
  for (const TokenBeside& one : tokens_beside(beside, {})) {
    AddedToken token = one.token;
    if (token.content.empty()) continue;
    const std::int64_t known = names.id_of(token.content).value_or(names.vocab_size());
    const std::int64_t id = one.id.value_or(known);
    if (id < 0 || id >= kMostTokens || (id >= ranked.first_id && id < end))
      throw Error(ErrorKind::data,
                  fmt::format("{}: the token \"{}\" has the id {}, which is one of the model's",
                              one.place, token.content, id));
    token.id = static_cast<std::int32_t>(id);
    names.put(token);
    found.push_back(std::move(token));
  }
}

}  // namespace

std::unique_ptr<Tokenizer> make_ranked_tokenizer(const RankedTokens& ranked,
                                                 const TokenizerConfig& beside,
                                                 const std::string& place) try {
  const json steps = {
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"}, {"pattern", {{"Regex", ranked.pattern}}}, {"behavior", "Isolated"}},
          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}}},
      {"decoder", {{"type", "ByteLevel"}}}};
  const JsonPart part("its words", steps);
  const BpeModel model = ranked_bpe(ranked.tokens, ranked.first_id);
  TokenNames names(model.vocabulary, std::nullopt);
  for (const AddedToken& token : ranked.special) names.put(token);
  std::vector<AddedToken> found;
  add_beside(ranked, beside, names, found);
  const Tokenizer::Frame frame = frame_beside(
      beside, [&](std::string_view token) { return names.id_of(token); }, place);
  return std::make_unique<WordTokenizer>(
      TokenizerParts{.names = std::move(names),
                     .normalizer = Normalizer(std::nullopt),
                     .pre_tokenizer = PreTokenizer(part.find("pre_tokenizer")),
                     .model = std::make_unique<Bpe>(model, Bpe::Units::bytes),
                     .found = found_in_text(std::move(found), beside),
                     .frame = frame,
                     .decoder = Decoder(part.find("decoder"))});
} catch (const Error& error) {
  throw Error(error.kind(), fmt::format("{}: {}", place, error.what()));
}

}  // namespace troupe::stages
