#pragma once

#include <optional>
#include <string>

#include "stages/corpus/chat/jinja/values/jinja_value.h"

// The texts of values. Everything that Python writes and this does not, or for which it has an
// error, is Error{data} with the line of the template.

namespace troupe::stages {

/// What Python's str() gives: undefined is empty.
std::string text_of(const JinjaValue& value, int line);

/// How json.dumps writes.
struct JsonStyle {
  bool ascii = false;                      ///< ensure_ascii
  std::optional<std::string> indent = {};  ///< white space for each level; none: all in a line
  std::string between = ", ", behind_key = ": ";  ///< separators
  bool sorted = false;                            ///< sort_keys
};
/// What json.dumps gives, by which transformers replaces Jinja's own filter.
std::string json_text_of(const JinjaValue& value, const JsonStyle& style, int line);

}  // namespace troupe::stages
