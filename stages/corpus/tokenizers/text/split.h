#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stages/corpus/tokenizers/text/json_part.h"
#include "stages/corpus/tokenizers/text/regex.h"

namespace troupe::stages {

/// A pattern of a tokenizer.json, {"String": TEXT} or {"Regex": TEXT}.
struct Pattern {
  std::string source;
  bool literal = false;
  Regex regex;

  /// Throws Error{data} with the place in the file for one that is wrong or cannot be matched.
  static Pattern read(const JsonPart& part);
};

/// What becomes of the delimiters where a text is split, by the names of tokenizers.
enum class Delimiters { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// Reads a name such as "MergedWithNext".
Delimiters read_delimiters(const JsonPart& part);

/// Which parts of a text are delimiters: the matches, or all that lies between them.
enum class Matches { are_delimiters, are_kept };

/// Splits a text at the matches. No part is empty.
std::vector<std::string_view> split(std::string_view text, const Regex& pattern,
                                    Delimiters delimiters, Matches matches);

}  // namespace troupe::stages
