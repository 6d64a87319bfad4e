#pragma once

#include "stages/corpus/text/documents.h"
#include "stages/corpus/text/text_rules.h"
#include "stages/corpus/tokenizers/tokenizer.h"

namespace troupe::stages {

/// The ids that the rules put around a document that is no conversation, whose template writes
/// special tokens itself. Texts that are joined to one stream have only what the rules name.
struct Marks {
  Tokenizer::Frame prompts;  ///< around prompts with their responses, as a model is asked
  Tokenizer::Frame texts;
};
/// Throws Error{data} if the rules name a token that the tokenizer lacks.
Marks marks_of(const Tokenizer& tokenizer, const TextRules& rules, Documents documents);

}  // namespace troupe::stages
