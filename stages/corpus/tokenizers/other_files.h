#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "stages/corpus/tokenizers/text/json_part.h"
#include "stages/corpus/tokenizers/tokenizer.h"
#include "stages/corpus/tokenizers/tokenizer_config.h"

namespace troupe::stages {

// Files in which byte pair encoding is kept other than in a tokenizer.json. All of these throw
// Error{data} naming the file and its part that is wrong or not supported.

/// Whether a file is a tekken.json of Mistral.
bool is_tekken(const nlohmann::json& content);
/// Its ids are the ranks of its tokens behind those of its control tokens, which no text yields.
std::unique_ptr<Tokenizer> read_tekken(const JsonPart& file, const TokenizerConfig& beside);

/// Whether a file is a vocab.json as GPT-2's, an object of tokens with their ids, with a merges.txt
/// beside it.
bool is_gpt2_vocabulary(const std::string& path, const nlohmann::json& content);
/// The tokenizer.json that holds the same, with the steps of the class that the files beside it
/// name: GPT2Tokenizer if there is none, or Qwen2Tokenizer.
nlohmann::json with_merges(const JsonPart& vocabulary, const TokenizerConfig& beside);

/// Whether a file has lines of a token in base64 and its rank, as those of tiktoken.
bool is_tiktoken(const std::string& path);
/// Such a file has no pattern and no special tokens. These are known of the encodings of tiktoken
/// by the file's name, and of Llama 3, Qwen and Kimi by the files beside it and the number of
/// tokens.
std::unique_ptr<Tokenizer> open_tiktoken(const std::string& path);

}  // namespace troupe::stages
