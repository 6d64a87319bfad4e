#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::stages {

/// A compiled pattern. Const calls may run in any thread.
class Regex {
 public:
  /// A pattern in the syntax of regex_syntax.h. Throws Error{data} for one that is wrong, cannot be
  /// matched exactly, or matches the empty text.
  explicit Regex(std::string_view pattern);
  /// A pattern in PCRE2's own syntax.
  static Regex of_pcre2(std::string_view pattern);
  /// The text itself as a pattern; it is not empty.
  static Regex literal(std::string_view text);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  /// The matches in well-formed UTF-8, from left to right; each search begins where the match
  /// before it ends. Throws Error{data} if the pattern takes too many steps.
  std::vector<ByteRange> matches(std::string_view text) const;

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace troupe::stages
