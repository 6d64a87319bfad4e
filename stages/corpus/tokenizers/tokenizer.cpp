#include "stages/corpus/tokenizers/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "stages/corpus/tokenizers/other_files.h"
#include "stages/corpus/tokenizers/tokenizer_files.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  int vocab_size() const override { return 256; }

  std::optional<std::int32_t> id_of(std::string_view token) const override {
    if (token.size() != 1) return std::nullopt;
    return static_cast<unsigned char>(token[0]);
  }
  std::string name_of(std::int32_t id) const override { return {static_cast<char>(id)}; }

  std::vector<std::int32_t> encode(std::string_view text, Place /*place*/) const override {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    return {bytes, bytes + text.size()};
  }

  Cuts cuts() const override { return Cuts::anywhere; }

  std::string decode(std::span<const std::int32_t> ids) const override {
    check_decodable(ids, vocab_size());
    return {ids.begin(), ids.end()};
  }
};

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::open(const std::string& name) {
  if (name.empty())
    throw Error(ErrorKind::data,
                "the model has no tokenizer that can be read: put its tokenizer.json, "
                "tokenizer.model, tekken.json, .tiktoken, or vocab.json and merges.txt beside it");
  std::unique_ptr<Tokenizer> tokenizer = name == kBytesTokenizer ? std::make_unique<ByteTokenizer>()
                                         : name.ends_with(".json") ? open_json_tokenizer(name)
                                         : is_tiktoken(name)       ? open_tiktoken(name)
                                                                   : open_sentencepiece(name);
  tokenizer->name_ = name;
  return tokenizer;
}

std::vector<std::int32_t> Tokenizer::encode_prompt(std::string_view text,
                                                   std::span<const std::int32_t> before) const {
  std::vector<std::int32_t> ids(before.begin(), before.end());
  const std::vector<std::int32_t> inner = encode(text);
  ids.insert(ids.end(), inner.begin(), inner.end());
  return ids;
}

std::vector<std::size_t> Tokenizer::tokens_before(std::string_view text,
                                                  std::span<const std::int32_t> ids,
                                                  std::span<const std::size_t> bytes) const {
  std::vector<std::size_t> counts;
  for (const std::size_t byte : bytes) {
    // From the text's begin: what a tokenizer puts before a part of it would be taken for text.
    const auto before = encode(text.substr(0, byte));
    const auto same =
        static_cast<std::size_t>(std::ranges::mismatch(before, ids).in1 - before.begin());
    counts.push_back(std::max(same, counts.empty() ? 0 : counts.back()));
  }
  return counts;
}

void check_decodable(std::span<const std::int32_t> ids, int vocab_size) {
  for (const std::int32_t id : ids)
    if (id < 0 || id >= vocab_size)
      throw Error(ErrorKind::data, fmt::format("token id {} is outside the vocabulary of {} tokens",
                                               id, vocab_size));
}

}  // namespace troupe::stages
