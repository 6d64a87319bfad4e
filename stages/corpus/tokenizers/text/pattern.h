#pragma once

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

}  // namespace troupe::stages
