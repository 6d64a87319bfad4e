#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "stages/corpus/tokenizers/models/bpe.h"
#include "stages/corpus/tokenizers/models/unigram.h"
#include "stages/corpus/tokenizers/models/word_piece.h"
#include "stages/corpus/tokenizers/other_files.h"
#include "stages/corpus/tokenizers/post_processor.h"
#include "stages/corpus/tokenizers/text/json_part.h"
#include "stages/corpus/tokenizers/tokenizer_config.h"
#include "stages/corpus/tokenizers/tokenizer_files.h"
#include "stages/corpus/tokenizers/tokens_beside.h"
#include "stages/corpus/tokenizers/word_tokenizer.h"
#include "stages/storage/input_file.h"
#include "stages/storage/json_reason.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using nlohmann::json;

/// A model, and the tokens that it has.
struct TokenModel {
  std::unique_ptr<WordModel> model;
  Vocabulary vocabulary;
};

TokenModel read_model(const JsonPart& part, bool byte_level) {
  const std::string type = part.text("type", "BPE");  // old files do not say it
  if (type == "BPE") {
    BpeModel model = read_bpe_model(part);
    const auto units = byte_level ? Bpe::Units::bytes : Bpe::Units::characters;
    return {std::make_unique<Bpe>(model, units), std::move(model.vocabulary)};
  }
  if (type != "Unigram" && type != "WordPiece")
    part.fail(
        fmt::format("a model of the type {} is not supported, only BPE, Unigram, WordPiece", type));
  if (byte_level)
    part.fail(fmt::format("{} with the pre-tokenizer ByteLevel is not supported", type));
  const auto result = [](auto model) {
    Vocabulary vocabulary = model->vocabulary();
    return TokenModel{std::move(model), std::move(vocabulary)};
  };
  return type == "Unigram" ? result(std::make_unique<Unigram>(part))
                           : result(std::make_unique<WordPiece>(part));
}

bool is_class(const TokenizerConfig& beside, const std::string& name) {
  const json given = beside.member("tokenizer_class");
  return given == name || given == name + "Fast";
}

constexpr const char* kPrefix = "add_prefix_space";
constexpr int kFirstOwnRule = 5;

/// The steps of LlamaTokenizer, which since version 5 of transformers does not go by those of the
/// file; null where the file decides.
json llama_steps(const TokenizerConfig& beside, const PreTokenizer& of_file) {
  if (of_file.byte_level() || !is_class(beside, "LlamaTokenizer") ||
      beside.transformers_version() < kFirstOwnRule)
    return nullptr;
  const bool prefixes = beside.member(kPrefix) != false;
  json decoders = {{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}};
  if (prefixes)
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  const char* scheme = !prefixes ? "never" : beside.is_set("legacy") ? "always" : "first";
  return {{"pre_tokenizer",
           {{"type", "Metaspace"},
            {"replacement", "\u2581"},
            {"prepend_scheme", scheme},
            {"split", false}}},
          {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}}};
}

/// Says by which rule a directory of LlamaTokenizer is read.
std::string llama_note(const TokenizerConfig& beside, bool by_class) {
  if (!is_class(beside, "LlamaTokenizer")) return "";
  const auto version = beside.transformers_version();
  if (by_class)
    return fmt::format(
        "the tokenizer is read as LlamaTokenizer of transformers {} does, {}legacy, "
        "without the normalizer of tokenizer.json",
        version, beside.is_set("legacy") ? "" : "not ");
  return version == 0 ? "the tokenizer is read by its tokenizer.json, as transformers 4 does: no "
                        "file says the version that wrote it"
                      : fmt::format(
                            "the tokenizer is read by its tokenizer.json, as transformers {} "
                            "does, which wrote it",
                            version);
}

/// Refuses a tokenizer_config.json whose "add_prefix_space" contradicts the file in a class of
/// transformers that goes by it: GPT2Tokenizer, and LlamaTokenizer unless the tokens are bytes.
void check_prefix(const TokenizerConfig& beside, const TokenizerParts& parts) {
  const json flag = beside.member(kPrefix);
  const std::string goes_by_it =
      parts.pre_tokenizer.byte_level() ? "GPT2Tokenizer" : "LlamaTokenizer";
  if (!is_class(beside, goes_by_it)) return;
  const bool prefixes = parts.normalizer.prepends() || parts.pre_tokenizer.prefixes();
  if (!flag.is_boolean() || flag == prefixes) return;
  throw Error(
      ErrorKind::data,
      fmt::format("{}: {} is {}, by which {} gives other ids than the tokenizer.json beside it, "
                  "which is made for {}",
                  beside.path().string(), kPrefix, flag.dump(), goes_by_it, prefixes));
}

/// Refuses a file that spells its tokens in GPT-2's alphabet, as its decoder says, but makes no
/// bytes of a text: most of the text would have no token, and be left out.
void check_bytes(const JsonPart& file, const PreTokenizer& pre_tokenizer) {
  const auto decoder = file.find("decoder");
  if (pre_tokenizer.byte_level() || !decoder || decoder->type() != "ByteLevel") return;
  const auto part = file.find("pre_tokenizer");
  file.fail(
      fmt::format("the pre-tokenizer {} makes no bytes, which the tokens are by the decoder "
                  "ByteLevel",
                  part ? part->type() : "null"));
}

void check_frame(const JsonPart& file, const TokenizerParts& parts) {
  for (const auto& side : {parts.frame.before, parts.frame.after})
    for (const std::int32_t id : side)
      if (id >= parts.names.vocab_size())
        file.fail(fmt::format("post_processor: the id {} is no token's; there are {}", id,
                              parts.names.vocab_size()));
}

std::unique_ptr<Tokenizer> read_tokenizer(const JsonPart& file, const TokenizerConfig& beside) {
  if (const std::string version = file.text("version", "1.0"); version != "1.0")
    file.fail(fmt::format("version {} is not supported, only 1.0", version));
  PreTokenizer pre_tokenizer(file.find("pre_tokenizer"));
  check_bytes(file, pre_tokenizer);
  TokenModel model = read_model(file.at("model"), pre_tokenizer.byte_level());
  TokenNames names(model.vocabulary, file.find("added_tokens"));
  names.add(tokens_beside(beside, names.added()));
  const json own_steps = llama_steps(beside, pre_tokenizer);
  const bool by_class = !own_steps.is_null();
  const JsonPart steps = by_class ? file.with(own_steps) : file;
  if (by_class) pre_tokenizer = PreTokenizer(steps.find("pre_tokenizer"));
  std::vector<AddedToken> found = found_in_text(names.added(), beside);
  TokenizerParts parts{.names = std::move(names),
                       .normalizer = Normalizer(steps.find("normalizer")),
                       .pre_tokenizer = std::move(pre_tokenizer),
                       .model = std::move(model.model),
                       .found = std::move(found),
                       .frame = read_frame(file.find("post_processor")),
                       .decoder = Decoder(steps.find("decoder")),
                       .note = llama_note(beside, by_class)};
  if (parts.normalizer.prepends() && parts.pre_tokenizer.knows_start())
    file.fail("the normalizer Prepend beside Metaspace with prepend_scheme first is not supported");
  if (!by_class) check_prefix(beside, parts);
  check_frame(file, parts);
  return std::make_unique<WordTokenizer>(std::move(parts));
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
  const JsonPart file(path, content);
  const TokenizerConfig beside(std::filesystem::path(path).parent_path());
  if (is_tekken(content)) return read_tekken(file, beside);
  if (!is_gpt2_vocabulary(path, content)) return read_tokenizer(file, beside);
  const json whole = with_merges(file, beside);
  return read_tokenizer(JsonPart(path, whole), beside);
}

}  // namespace troupe::stages
