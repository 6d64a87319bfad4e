#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "stages/corpus/text/corpus_encoder.h"
#include "stages/corpus/text/corpus_reading.h"
#include "stages/corpus/text/documents.h"
#include "stages/corpus/text/text_rules.h"

namespace troupe::stages {

/// Hands a file to the encoder by its kind (look_at_file). Each object of JSON lines, or of a list
/// of JSON, is one document and one sequence (record_of); conversations are written by the chat
/// template beside the encoder's tokenizer. Any other file is one document with a sequence for each
/// piece. What records there were is added to `reading`. Throws Error{data} for a file that cannot
/// be read, or, unless such lines are skipped, a line that is no record, naming file and line. The
/// encoder's options are warned of what is no UTF-8, and of a file that may be another than it
/// seems.
void add_file(const std::string& path, LossOn loss_on, const TextRules& rules,
              CorpusEncoder& encoder, CorpusReading& reading);

/// Counts what is no UTF-8 in a text file, of which the bytes are added in their order.
class BrokenText {
 public:
  void add(std::string_view bytes);
  /// What is added next begins at this byte of the file, from 0.
  void skip_to(std::uint64_t byte) { read_ = byte; }
  /// A sentence about the file: how many parts count as U+FFFD, and where the first is, in bytes
  /// from 1. Empty if there is none.
  std::string sentence(const std::string& path) const;

 private:
  std::uint64_t read_ = 0;   ///< bytes so far
  std::uint64_t first_ = 0;  ///< the byte at which the first part begins, from 1
  std::int64_t parts_ = 0;
};

}  // namespace troupe::stages
