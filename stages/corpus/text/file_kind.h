#pragma once

#include <string>
#include <string_view>

#include "stages/corpus/tokenizers/tokenizer.h"

namespace troupe::stages {

/// How a file holds the texts of a corpus.
enum class FileKind {
  text,        ///< as a whole
  json_lines,  ///< one document in each line, a JSON object
  json_list,   ///< one document in each element of a JSON list
};

/// What a file is, and what speaks against it.
struct FileLook {
  FileKind kind = FileKind::text;
  std::string doubt;  ///< a sentence about the file; empty for none
};

/// Decides what a file is by the ending of its name, in any case, and by its first bytes, which are
/// unpacked if gzip, zstd or xz has packed them: a file that begins with an object of JSON in a
/// line, or with a list of them, is that under any name. Throws Error{data} naming what it holds
/// instead if it is no text in UTF-8, as otherwise packed and other binary files, UTF-16 and
/// tokens, or a table, or JSON of another form; and for a file that cannot be read. Bytes that are
/// no UTF-8 refuse a file only if they are many and the `tokenizer` that reads it takes characters,
/// as Latin-1 does: a large corpus may have some (BrokenText).
FileLook look_at_file(const std::string& path, std::string_view tokenizer = kBytesTokenizer);
inline FileKind file_kind(const std::string& path, std::string_view tokenizer = kBytesTokenizer) {
  return look_at_file(path, tokenizer).kind;
}

/// Throws Error{data} for a file that holds no records, or as look_at_file() does: only these tell
/// prompts and responses.
void require_responses(const std::string& path);

}  // namespace troupe::stages
