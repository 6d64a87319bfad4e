#include <fmt/format.h>

#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "stages/corpus/tokenizers/added_tokens.h"
#include "stages/corpus/tokenizers/bpe/bpe.h"
#include "stages/corpus/tokenizers/decoder.h"
#include "stages/corpus/tokenizers/normalizer.h"
#include "stages/corpus/tokenizers/post_processor.h"
#include "stages/corpus/tokenizers/text/json_part.h"
#include "stages/corpus/tokenizers/text/pre_tokenizer.h"
#include "stages/corpus/tokenizers/text/utf8.h"
#include "stages/corpus/tokenizers/token_names.h"
#include "stages/corpus/tokenizers/tokenizer_config.h"
#include "stages/corpus/tokenizers/tokenizer_files.h"
#include "stages/corpus/tokenizers/tokens_beside.h"
#include "stages/storage/input_file.h"
#include "stages/storage/json_reason.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using nlohmann::json;
using Origin = Word::Origin;

/// Scratches that no call uses at the moment. A call takes one or makes one, so that there are as
/// many as threads encode at the same time.
class Scratches {
 public:
  std::unique_ptr<Bpe::Scratch> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Bpe::Scratch>();
    auto scratch = std::move(free_.back());
    free_.pop_back();
    return scratch;
  }
  void give_back(std::unique_ptr<Bpe::Scratch> scratch) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(scratch));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Bpe::Scratch>> free_;
};

class JsonTokenizer final : public Tokenizer {
 public:
  JsonTokenizer(const JsonPart& file, const TokenizerConfig& beside)
      : JsonTokenizer(file, beside, read_model(file)) {}

  int vocab_size() const override { return names_.vocab_size(); }
  std::optional<std::int32_t> id_of(std::string_view token) const override {
    return names_.id_of(token);
  }
  std::string name_of(std::int32_t id) const override { return names_.name_of(id); }
  std::vector<std::int32_t> encode(std::string_view text, Place place) const override;
  Cuts cuts() const override;
  Frame frame() const override { return frame_; }
  std::string decode(std::span<const std::int32_t> ids) const override;

 private:
  JsonTokenizer(const JsonPart& file, const TokenizerConfig& beside, const BpeModel& model);
  static BpeModel read_model(const JsonPart& file);
  void check_prefix(const TokenizerConfig& beside) const;
  void encode_section(std::string_view text, Origin origin, Bpe::Scratch& scratch,
                      std::vector<std::int32_t>& ids) const;
  void encode_words(Words words, Bpe::Scratch& scratch, std::vector<std::int32_t>& ids) const;

  TokenNames names_;
  Normalizer normalizer_;
  AddedTokens added_;
  PreTokenizer pre_tokenizer_;
  Bpe bpe_;
  Frame frame_;
  Decoder decoder_;
  mutable Scratches scratches_;
};

BpeModel JsonTokenizer::read_model(const JsonPart& file) {
  if (const std::string version = file.text("version", "1.0"); version != "1.0")
    file.fail(fmt::format("version {} is not supported, only 1.0", version));
  return read_bpe_model(file.at("model"));
}

/// The tokens of the file and of the files beside it.
TokenNames read_names(const JsonPart& file, const TokenizerConfig& beside, const BpeModel& model) {
  TokenNames names(model.vocabulary, file.find("added_tokens"));
  names.add(tokens_beside(beside, names.added()));
  return names;
}

JsonTokenizer::JsonTokenizer(const JsonPart& file, const TokenizerConfig& beside,
                             const BpeModel& model)
    : names_(read_names(file, beside, model)),
      normalizer_(file.find("normalizer")),
      added_(found_in_text(names_.added(), beside), normalizer_),
      pre_tokenizer_(file.find("pre_tokenizer")),
      bpe_(model, pre_tokenizer_.byte_level() ? Bpe::Units::bytes : Bpe::Units::characters),
      frame_(read_frame(file.find("post_processor"))),
      decoder_(file.find("decoder")) {
  if (normalizer_.prepends() && pre_tokenizer_.knows_start())
    file.fail("the normalizer Prepend beside Metaspace with prepend_scheme first is not supported");
  check_prefix(beside);
  for (const auto& side : {frame_.before, frame_.after})
    for (const std::int32_t id : side)
      if (id >= vocab_size())
        file.fail(
            fmt::format("post_processor: the id {} is no token's; there are {}", id, vocab_size()));
}

/// Refuses a tokenizer_config.json whose "add_prefix_space" contradicts the file in a class of
/// transformers that goes by it: GPT2Tokenizer, and LlamaTokenizer unless the tokens are bytes.
void JsonTokenizer::check_prefix(const TokenizerConfig& beside) const {
  constexpr const char* kPrefix = "add_prefix_space";
  const json name = beside.member("tokenizer_class"), flag = beside.member(kPrefix);
  const std::string goes_by_it = pre_tokenizer_.byte_level() ? "GPT2Tokenizer" : "LlamaTokenizer";
  if (name != goes_by_it && name != goes_by_it + "Fast") return;
  const bool prefixes = normalizer_.prepends() || pre_tokenizer_.prefixes();
  if (!flag.is_boolean() || flag == prefixes) return;
  throw Error(
      ErrorKind::data,
      fmt::format("{}: {} is {}, by which {} gives other ids than the tokenizer.json beside it, "
                  "which is made for {}",
                  beside.path().string(), kPrefix, flag.dump(), goes_by_it, prefixes));
}

std::vector<std::int32_t> JsonTokenizer::encode(std::string_view text, Place place) const {
  if (!is_valid_utf8(text)) return encode(valid_utf8(text), place);
  if (text.size() > INT32_MAX)
    throw Error(ErrorKind::data, fmt::format("a text of {} bytes; at most {} can be encoded",
                                             text.size(), INT32_MAX));
  std::vector<std::int32_t> ids;
  auto scratch = scratches_.take();
  Origin origin = place == Place::start ? Origin::start : Origin::after_newline;
  for (const auto& [section, token] : added_.split(text)) {
    if (token)
      ids.push_back(*token);
    else
      encode_section(section, origin, *scratch, ids);
    origin = Origin::within;
  }
  scratches_.give_back(std::move(scratch));
  return ids;
}

/// Encodes a text between two added tokens.
void JsonTokenizer::encode_section(std::string_view text, Origin origin, Bpe::Scratch& scratch,
                                   std::vector<std::int32_t>& ids) const {
  std::string normalized;
  if (!normalizer_.changes_nothing()) {
    normalized = normalizer_.apply(
        text, origin == Origin::after_newline ? Place::after_newline : Place::start);
    text = normalized;
  }
  for (const auto& [section, token] : added_.split_normalized(text)) {
    if (token)
      ids.push_back(*token);
    else
      encode_words({.words = {{.text = section, .origin = origin}}, .made = {}}, scratch, ids);
    origin = Origin::within;
  }
}

void JsonTokenizer::encode_words(Words words, Bpe::Scratch& scratch,
                                 std::vector<std::int32_t>& ids) const {
  pre_tokenizer_.apply(words);
  for (const Word& word : words.words) bpe_.encode(word.text, scratch, ids);
}

Cuts JsonTokenizer::cuts() const {
  const auto at_cut = pre_tokenizer_.at_cut();
  const bool words_allow = at_cut == PreTokenizer::AtCut::ends_words ||
                           (at_cut == PreTokenizer::AtCut::cuts_word && bpe_.allows_cuts());
  return words_allow && added_.allows_cuts() && normalizer_.allows_cuts() ? Cuts::at_lone_newlines
                                                                          : Cuts::nowhere;
}

std::string JsonTokenizer::decode(std::span<const std::int32_t> ids) const {
  check_decodable(ids, vocab_size());
  std::vector<std::string> tokens;
  for (const std::int32_t id : ids)
    if (!names_.is_special(id)) tokens.push_back(names_.name_of(id));
  return decoder_.apply(std::move(tokens));
}

/// Deepest nesting of a file. Real ones have less than ten levels.
constexpr int kDeepest = 32;
constexpr std::uint64_t kMaxJsonBytes = std::uint64_t{1} << 28;

json parse(const std::string& path) {
  const std::string text = read_whole_file(path, kMaxJsonBytes);
  const auto check_depth = [&path](int depth, json::parse_event_t /*event*/, json& /*value*/) {
    if (depth > kDeepest)
      throw Error(ErrorKind::data, fmt::format("{}: nests deeper than {} levels", path, kDeepest));
    return true;
  };
  try {
    return json::parse(text, check_depth);
  } catch (const json::exception& error) {
    throw Error(ErrorKind::data, fmt::format("{}: no JSON in UTF-8: {}", path, json_reason(error)));
  }
}

}  // namespace

std::unique_ptr<Tokenizer> open_json_tokenizer(const std::string& path) {
  const json content = parse(path);
  return std::make_unique<JsonTokenizer>(
      JsonPart(path, content), TokenizerConfig(std::filesystem::path(path).parent_path()));
}

}  // namespace troupe::stages
