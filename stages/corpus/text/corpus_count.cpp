#include "stages/corpus/text/corpus_count.h"

#include <algorithm>

#include "stages/corpus/text/corpus_encoder.h"
#include "stages/corpus/text/corpus_files.h"

namespace troupe::stages {

CorpusCount count_corpus(const std::vector<std::string>& files, LossOn loss_on, Documents documents,
                         const TextRules& rules, const Tokenizer& tokenizer) {
  CorpusCount count;
  std::int64_t document = 0, part = 0;  // the first token of each
  bool has_target = false;
  const auto end_part = [&](bool is_trained) {
    has_target |= is_trained && count.tokens > std::max(part, document + 1);
    part = count.tokens;
  };
  const auto add = [&](std::span<const std::int32_t> ids, Ends ends) {
    count.tokens += std::ssize(ids);
    if (ends == Ends::prompt) end_part(loss_on == LossOn::all);
    if (ends == Ends::response) end_part(true);
    if (ends != Ends::document) return;
    end_part(true);
    document = count.tokens;
    ++count.documents;
    count.with_targets += has_target;
    has_target = false;
  };
  CorpusEncoder encoder(tokenizer, for_training({}, tokenizer, documents, rules),
                        size_of_files(files), add);
  for (const std::string& file : files) add_file(file, loss_on, rules, encoder, count.reading);
  encoder.finish();
  return count;
}

}  // namespace troupe::stages
