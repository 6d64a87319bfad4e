#pragma once

#include <string>
#include <string_view>

#include "stages/corpus/tokenizers/tokenizer.h"

namespace troupe::stages {

/// How a file holds the texts of a corpus.
enum class FileKind {
  text,        ///< as a whole
  json_lines,  ///< one document in each line, a JSON object
};

/// Decides what a file is by the ending of its name, in any case, and by its first bytes: a file
/// whose first line is an object of JSON is JSON lines under any name. Throws Error{data} naming
/// what it holds instead if it is no text in UTF-8, as packed and other binary files, UTF-16 and
/// tokens, or a table, or JSON that is not in lines; and for a file that cannot be read. Bytes that
/// are no UTF-8 refuse a file only if they are many and the `tokenizer` that reads it takes
/// characters, as Latin-1 does: a large corpus may have some (BrokenText).
FileKind file_kind(const std::string& path, std::string_view tokenizer = kBytesTokenizer);

/// Throws Error{data} for a file that is not JSON lines, or as file_kind() does: only these tell
/// prompts and responses.
void require_responses(const std::string& path);

}  // namespace troupe::stages
