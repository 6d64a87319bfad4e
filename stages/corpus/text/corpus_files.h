#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "stages/corpus/text/corpus_encoder.h"
#include "stages/corpus/text/documents.h"

namespace troupe::stages {

/// Hands a file to the encoder by its kind (file_kind). Each line of JSON lines is one document and
/// one sequence: its "text" (not with LossOn::response), its "prompt" and its "response", or its
/// "messages" as the chat template beside the encoder's tokenizer writes them. Any other file is
/// one document with a sequence for each piece. Throws Error{data} for a file that cannot be read,
/// or a line that is none of this, naming it. The encoder's options are warned of what is no UTF-8.
void add_file(const std::string& path, LossOn loss_on, CorpusEncoder& encoder);

/// Counts what is no UTF-8 in a text file, of which the bytes are added in their order.
class BrokenText {
 public:
  void add(std::string_view bytes);
  /// A sentence about the file: how many parts count as U+FFFD, and where the first is, in bytes
  /// from 1. Empty if there is none.
  std::string sentence(const std::string& path) const;

 private:
  std::uint64_t read_ = 0;   ///< bytes so far
  std::uint64_t first_ = 0;  ///< the byte at which the first part begins, from 1
  std::int64_t parts_ = 0;
};

}  // namespace troupe::stages
