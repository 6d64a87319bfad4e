#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "stages/corpus/tokenizers/other_files.h"
#include "stages/corpus/tokenizers/ranks/ranked_bpe.h"
#include "stages/corpus/tokenizers/ranks/ranked_tokenizer.h"
#include "stages/corpus/tokenizers/text/known_patterns.h"
#include "stages/storage/input_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

namespace fs = std::filesystem;

/// What is known of an encoding beside its file: how to tell it, its pattern, and names of special
/// tokens, whose ids follow those of the others.
struct Encoding {
  std::string_view file;             ///< what the file's name begins with
  std::string_view tokenizer_class;  ///< by tokenizer_config.json
  std::size_t tokens;                ///< 0: any number
  const char* pattern;
  std::vector<std::string> special;
};

std::vector<Encoding> encodings() {
  return {{"r50k_base", "", 0, kGpt2Words, {"<|endoftext|>"}},
          {"cl100k_base",
           "",
           0,
           kCl100kWords,
           {"", "<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"}},
          {"o200k_base", "", 0, kO200kWords, {"", "<|endoftext|>"}},
          {"qwen", "QWenTokenizer", 0, kQwenWords, {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}},
          {"tiktoken.model", "TikTokenTokenizer", 0, kKimiWords, {}},
          {"tokenizer.model",
           "",
           128000,
           kCl100kWords,
           {"<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
            "<|reserved_special_token_1|>", "<|reserved_special_token_2|>",
            "<|reserved_special_token_3|>", "<|start_header_id|>", "<|end_header_id|>",
            "<|reserved_special_token_4|>", "<|eot_id|>"}}};
}

/// A line's token, if the line is one whose rank is `rank`.
std::optional<std::string> token_of(std::string_view line, std::int64_t rank) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0) return std::nullopt;
  std::int64_t number = -1;
  const char* const end = line.data() + line.size();
  const auto [rest, code] = std::from_chars(line.data() + space + 1, end, number);
  if (code != std::errc() || rest != end || number != rank) return std::nullopt;
  return bytes_of_base64(line.substr(0, space));
}

std::vector<std::string> read_tokens(const std::string& path) {
  const std::string content = read_whole_file(path, kMaxTokenizerBytes);
  std::vector<std::string> tokens;
  std::size_t number = 1;
  for (std::size_t begin = 0; begin < content.size(); ++number) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    const std::string_view line = std::string_view(content).substr(begin, end - begin);
    begin = end + 1;
    if (line.empty()) continue;
    auto token = token_of(line, std::ssize(tokens));
    if (!token)
      throw Error(ErrorKind::data, fmt::format("{}:{}: expected a token in base64 and its rank, {}",
                                               path, number, tokens.size()));
    tokens.push_back(std::move(*token));
  }
  return tokens;
}

}  // namespace

bool is_tiktoken(const std::string& path) {
  constexpr std::size_t kLongest = 1000;  // far above that of a first token, a byte
  if (!file_exists(path)) return false;
  std::ifstream file(path, std::ios::binary);
  std::string line(kLongest, '\0');
  file.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<std::size_t>(file.gcount()));
  return token_of(std::string_view(line).substr(0, line.find('\n')), 0).has_value();
}

std::unique_ptr<Tokenizer> open_tiktoken(const std::string& path) {
  const TokenizerConfig beside(fs::path(path).parent_path());
  RankedTokens ranked{.tokens = read_tokens(path)};
  const std::string file = fs::path(path).filename().string();
  const auto given = beside.member("tokenizer_class");
  const auto known = encodings();
  auto found = std::ranges::find_if(known, [&](const Encoding& encoding) {
    return !encoding.tokenizer_class.empty() && given == encoding.tokenizer_class;
  });
  if (found == known.end())
    found = std::ranges::find_if(known, [&](const Encoding& encoding) {
      return file.starts_with(encoding.file) &&
             (encoding.tokens == 0 || encoding.tokens == ranked.tokens.size());
    });
  if (found == known.end())
    throw Error(
        ErrorKind::data,
        fmt::format("{}: a file of tiktoken has no pattern, and this is none of those whose "
                    "pattern is known: r50k_base, cl100k_base and o200k_base by "
                    "name, Llama 3 by its 128000 tokens in a tokenizer.model, Qwen and "
                    "Kimi by the tokenizer_class in tokenizer_config.json",
                    path));
  ranked.pattern = found->pattern;
  auto id = static_cast<std::int32_t>(ranked.tokens.size());
  for (const std::string& name : found->special) {
    if (!name.empty()) ranked.special.push_back({.content = name, .id = id, .special = true});
    ++id;
  }
  return make_ranked_tokenizer(ranked, beside, path);
}

}  // namespace troupe::stages
