#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stages/corpus/tokenizers/text/json_part.h"
#include "stages/corpus/tokenizers/text/line_ends.h"
#include "stages/corpus/tokenizers/text/regex.h"

namespace troupe::stages {

/// A pattern of a tokenizer.json, {"String": TEXT} or {"Regex": TEXT}.
struct Pattern {
  std::string source;
  bool literal = false;
  Regex regex;
  LineEnds line_ends;

  /// A pattern in the syntax of regex_syntax.h. Throws as Regex does.
  static Pattern of_regex(const std::string& source);
  static Pattern of_text(const std::string& text);
  /// A character of a set that has no newline.
  static Pattern one_of(std::span<const CharacterRange> set);
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

/// Where a text that goes on is split whatever follows: at `begin` for the last time that is known,
/// or nowhere if that is 0; and not between there and `end`.
struct LastSplit {
  std::size_t begin = 0;
  std::size_t end = 0;
};
LastSplit last_split(std::string_view text, const Regex& pattern, Delimiters delimiters,
                     Matches matches);

}  // namespace troupe::stages
