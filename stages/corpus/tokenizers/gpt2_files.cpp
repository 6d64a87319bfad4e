#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "stages/corpus/tokenizers/other_files.h"
#include "stages/corpus/tokenizers/text/known_patterns.h"
#include "stages/corpus/tokenizers/tokenizer.h"
#include "stages/storage/input_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using nlohmann::json;

constexpr const char* kEndOfText = "<|endoftext|>";
std::filesystem::path merges_beside(const std::string& vocabulary) {
  return std::filesystem::path(vocabulary).parent_path() / kMergesFile;
}

/// The lines of the merges, without the first if it tells a version.
json read_merges(const std::filesystem::path& path) {
  const std::string content = read_whole_file(path, kMaxTokenizerBytes);
  json merges = json::array();
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    std::string_view line = std::string_view(content).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !(begin == 0 && line.starts_with("#version"))) merges.push_back(line);
    begin = end + 1;
  }
  return merges;
}

json byte_level(bool prefix, bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", prefix}, {"use_regex", use_regex}};
}

}  // namespace

bool is_gpt2_vocabulary(const std::string& path, const json& content) {
  return content.is_object() && !content.contains("model") && !content.empty() &&
         std::ranges::all_of(content, [](const json& id) { return id.is_number(); }) &&
         file_exists(merges_beside(path));
}

json with_merges(const JsonPart& vocabulary, const TokenizerConfig& beside) {
  const json given = beside.member("tokenizer_class");
  std::string name = given.is_string() ? given.get<std::string>() : "GPT2Tokenizer";
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  const bool is_qwen = name == "Qwen2Tokenizer";
  if (!is_qwen && name != "GPT2Tokenizer" && name != "PreTrainedTokenizer")
    throw Error(ErrorKind::data,
                fmt::format("{}: tokenizer_class {} is none of those whose steps beside a "
                            "vocab.json are known: GPT2Tokenizer, Qwen2Tokenizer",
                            beside.path().string(), name));
  const bool prefix = beside.is_set("add_prefix_space");
  json whole = {{"version", "1.0"},
                {"model",
                 {{"type", "BPE"},
                  {"vocab", vocabulary.value()},
                  {"merges", read_merges(merges_beside(vocabulary.where()))}}},
                {"pre_tokenizer", byte_level(prefix, true)},
                {"decoder", byte_level(prefix, true)}};
  if (is_qwen) {
    whole["normalizer"] = {{"type", "NFC"}};
    whole["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"}, {"pattern", {{"Regex", kQwenWords}}}, {"behavior", "Isolated"}},
          byte_level(prefix, false)}}};
  }
  // What ends a text, unless a file names another token.
  if (!beside.has_token("eos_token") && vocabulary.value().contains(kEndOfText))
    whole["added_tokens"] = {
        {{"id", vocabulary.value()[kEndOfText]}, {"content", kEndOfText}, {"special", true}}};
  return whole;
}

}  // namespace troupe::stages
