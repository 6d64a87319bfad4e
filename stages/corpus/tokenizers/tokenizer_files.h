#pragma once

#include <memory>
#include <string>

#include "stages/corpus/tokenizers/tokenizer.h"

namespace troupe::stages {

/// A tokenizer.json of Hugging Face's tokenizers whose model is BPE, Unigram or WordPiece, or
/// another file in JSON (other_files.h). Its ids are those of tokenizers; a part of the file that
/// cannot be done so is refused. Padding and truncation, which form batches, are not used. Throws
/// Error{data} naming the file and its part that is missing, broken or not supported.
std::unique_ptr<Tokenizer> open_json_tokenizer(const std::string& path);

/// A SentencePiece .model, by the library itself. Tokens that files beside it name are found in a
/// text before the library sees it. Its frame is what add_bos_token and add_eos_token of a
/// tokenizer_config.json beside it ask for. Throws Error{data} naming the file if it is missing or
/// no model, or lacks such a token.
std::unique_ptr<Tokenizer> open_sentencepiece(const std::string& path);

}  // namespace troupe::stages
