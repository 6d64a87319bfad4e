#pragma once

#include <memory>
#include <string>

#include "stages/tokenizers/tokenizer.h"

namespace troupe::stages {

/// A SentencePiece .model, by the library itself. Throws Error{data} naming the file if it is
/// missing or no model.
std::unique_ptr<Tokenizer> open_sentencepiece(const std::string& path);

}  // namespace troupe::stages
