#pragma once

#include <optional>

#include "stages/corpus/tokenizers/text/json_part.h"
#include "stages/corpus/tokenizers/tokenizer.h"

namespace troupe::stages {

/// Reads the special tokens that the member "post_processor" of a tokenizer.json adds to a text:
/// those of a TemplateProcessing, BertProcessing or RobertaProcessing, alone or in a Sequence.
/// (ByteLevel adds none.)
Tokenizer::Frame read_frame(const std::optional<JsonPart>& part);

}  // namespace troupe::stages
