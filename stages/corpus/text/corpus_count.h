#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stages/corpus/text/corpus_reading.h"
#include "stages/corpus/text/documents.h"
#include "stages/corpus/text/text_rules.h"
#include "stages/corpus/tokenizers/tokenizer.h"

namespace troupe::stages {

/// What texts hold.
struct CorpusCount {
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::int64_t with_targets = 0;  ///< documents of which a token behind the first is trained
  CorpusReading reading;
};

/// Encodes files of text and keeps nothing but the counts. Throws Error{data} as prepare_tokens()
/// does.
CorpusCount count_corpus(const std::vector<std::string>& files, LossOn loss_on, Documents documents,
                         const TextRules& rules, const Tokenizer& tokenizer);

}  // namespace troupe::stages
