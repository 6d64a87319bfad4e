#include "stages/files/hugging_face/hf_tokenizer.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "stages/corpus/tokenizers/other_files.h"
#include "stages/corpus/tokenizers/text/byte_alphabet.h"
#include "stages/corpus/tokenizers/tokenizer.h"
#include "stages/corpus/tokenizers/tokenizer_config.h"
#include "stages/files/safetensors/file_names.h"
#include "stages/storage/input_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kTokenizerJson = "tokenizer.json";
/// Files of other formats, which a directory has under these names.
constexpr std::array<const char*, 3> kOtherNames{"tekken.json", "tiktoken.model", kVocabularyFile};

/// A vocabulary whose ids are the bytes.
json byte_vocabulary() {
  json vocabulary = json::object();
  for (int byte = 0; byte < 256; ++byte)
    vocabulary[letter_of_byte(static_cast<unsigned char>(byte))] = byte;
  return vocabulary;
}

json byte_level() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", false},
          {"use_regex", false}};
}

std::string byte_tokenizer() {
  const json model = {{"type", "BPE"},
                      {"dropout", nullptr},
                      {"unk_token", nullptr},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", false},
                      {"byte_fallback", false},
                      {"ignore_merges", false},
                      {"vocab", byte_vocabulary()},
                      {"merges", json::array()}};
  const json tokenizer = {{"version", "1.0"},
                          {"truncation", nullptr},
                          {"padding", nullptr},
                          {"added_tokens", json::array()},
                          {"normalizer", nullptr},
                          {"pre_tokenizer", byte_level()},
                          {"post_processor", nullptr},
                          {"decoder", byte_level()},
                          {"model", model}};
  return tokenizer.dump(2) + '\n';
}

/// Most classes of transformers convert a model or add ids of their own; this class uses
/// SentencePiece's processor itself. Special tokens that the model lacks are null, because
/// otherwise they would be added to the vocabulary.
json sentencepiece_config(const std::string& model) {
  sentencepiece::SentencePieceProcessor processor;
  const auto status = processor.LoadFromSerializedProto(model);
  TROUPE_ASSERT(status.ok());  // it was opened before
  const auto piece = [&](int id) { return id < 0 ? json(nullptr) : json(processor.IdToPiece(id)); };
  return {{"tokenizer_class", "BertGenerationTokenizer"},
          {"bos_token", piece(processor.bos_id())},
          {"eos_token", piece(processor.eos_id())},
          {"unk_token", piece(processor.unk_id())},
          {"pad_token", piece(processor.pad_id())},
          {"sep_token", nullptr},
          {"split_special_tokens", true},  // within a text they are ordinary text
          {"clean_up_tokenization_spaces", false}};
}

/// Whether the directory has the tokenizer.json that checkpoints of "bytes" have.
bool holds_byte_tokenizer(const fs::path& dir) {
  const fs::path path = dir / kTokenizerJson;
  return file_exists(path) && read_whole_file(path, kMaxTokenizerBytes) == byte_tokenizer();
}

bool is_json(const std::string& tokenizer) {
  return fs::path(tokenizer).extension() == ".json";
}

/// Whether a directory holds the tokenizer under the name that it has.
bool keeps_its_name(const std::string& tokenizer) {
  const std::string name = fs::path(tokenizer).filename().string();
  return fs::path(name).extension() == ".tiktoken" || std::ranges::count(kOtherNames, name) > 0;
}

/// The file of tiktoken in a directory, if there is one.
std::optional<fs::path> tiktoken_in(const fs::path& dir) {
  std::error_code code;
  for (fs::directory_iterator entry(dir, code), end; !code && entry != end; entry.increment(code))
    if (entry->path().extension() == ".tiktoken") return entry->path();
  return std::nullopt;
}

/// Says in tokenizer_config.json which version of transformers wrote the tokenizer, if only the
/// config.json beside it does, which is not copied: it may decide the ids.
void keep_version(const std::string& tokenizer, std::map<std::string, std::string>& files) {
  const auto config = files.find(kTokenizerConfigFile);
  const fs::path dir = fs::path(tokenizer).parent_path();
  if (config == files.end() || !file_exists(dir / kTokenizerConfigFile)) return;
  const TokenizerConfig beside(dir);
  if (beside.transformers_version() > 0 && beside.member(kVersionMember).is_null() &&
      !Tokenizer::open(tokenizer)->note().empty()) {
    auto members = nlohmann::ordered_json::parse(config->second);
    members[kVersionMember] = fmt::format("{}.0.0", beside.transformers_version());
    config->second = members.dump(2) + '\n';
  }
}

}  // namespace

std::map<std::string, std::string> copies_beside(const std::string& tokenizer) {
  std::map<std::string, std::string> copies;
  for (const fs::path& file : files_beside(tokenizer))
    copies[file.filename().string()] = read_whole_file(file, kMaxTokenizerBytes);
  return copies;
}

std::map<std::string, std::string> hf_tokenizer_files(const std::string& tokenizer) {
  const json fast = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                     {"clean_up_tokenization_spaces", false}};
  if (tokenizer == kBytesTokenizer)
    return {{kTokenizerJson, byte_tokenizer()}, {kTokenizerConfigFile, fast.dump(2) + '\n'}};
  std::map<std::string, std::string> files = copies_beside(tokenizer);
  const bool alone = files.empty();
  const std::string content = read_whole_file(tokenizer, kMaxTokenizerBytes);
  if (is_json(tokenizer)) {
    if (tokenizer_file(tokenizer) == kTokenizerJson)
      files.emplace(kTokenizerConfigFile, fast.dump(2) + '\n');  // if there is none beside it
    keep_version(tokenizer, files);
    files.emplace(tokenizer_file(tokenizer), content);
    return files;
  }
  Tokenizer::open(tokenizer);
  if (is_tiktoken(tokenizer)) {
    files.emplace(tokenizer_file(tokenizer), content);
    return files;
  }
  if (alone) files.emplace(kTokenizerConfigFile, sentencepiece_config(content).dump(2) + '\n');
  files.emplace(kTokenizerFile, content);
  files.emplace("spiece.model", content);
  return files;
}

std::string tokenizer_file(const std::string& tokenizer) {
  if (keeps_its_name(tokenizer)) return fs::path(tokenizer).filename().string();
  return tokenizer == kBytesTokenizer || is_json(tokenizer) ? kTokenizerJson : kTokenizerFile;
}

std::string tokenizer_in(const fs::path& dir, const std::string& trained_with) {
  if (trained_with == kBytesTokenizer || holds_byte_tokenizer(dir))
    return std::string(kBytesTokenizer);
  const std::string recorded = dir / tokenizer_file(trained_with);
  if (!trained_with.empty() && file_exists(recorded)) return recorded;
  for (const char* name : {kTokenizerJson, kTokenizerFile, kOtherNames[0], kOtherNames[1]})
    if (file_exists(dir / name)) return dir / name;
  if (const auto tiktoken = tiktoken_in(dir)) return *tiktoken;
  if (file_exists(dir / kVocabularyFile)) return dir / kVocabularyFile;
  // Formats that Troupe does not read still say that the model was not trained on bytes.
  for (const char* name : {"vocab.txt", kTokenizerConfigFile})
    if (file_exists(dir / name)) return dir / kTokenizerJson;
  return "";
}

std::string tokenizer_or_bytes(const fs::path& dir, std::int64_t vocab_size,
                               const std::string& trained_with) {
  const std::string tokenizer = tokenizer_in(dir, trained_with);
  return tokenizer.empty() && vocab_size <= 256 ? std::string(kBytesTokenizer) : tokenizer;
}

std::string about_tokenizer(const std::string& tokenizer) try {
  return Tokenizer::open(tokenizer)->note();
} catch (const Error& error) {
  return error.what();
}

}  // namespace troupe::stages
