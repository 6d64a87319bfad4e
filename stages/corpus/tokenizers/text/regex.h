#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "stages/corpus/tokenizers/text/unicode_tables.h"
#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::stages {

struct Pcre2Pattern;

/// A compiled pattern. Const calls may run in any thread.
class Regex {
 public:
  /// A pattern in the syntax of regex_syntax.h. Throws Error{data} for one that is wrong, cannot be
  /// matched exactly, or matches the empty text.
  explicit Regex(std::string_view pattern);
  /// A pattern that was translated; `given` is for messages. Throws as above.
  Regex(std::string_view given, const Pcre2Pattern& pattern);
  /// A pattern in PCRE2's own syntax.
  static Regex of_pcre2(std::string_view pattern);
  /// The text itself as a pattern; it is not empty.
  static Regex literal(std::string_view text);
  /// One character of a set, of which there is always the same.
  static Regex one_of(std::span<const CharacterRange> set);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  /// The matches in well-formed UTF-8, from left to right; each search begins where the match
  /// before it ends. Throws Error{data} if the pattern takes too many steps.
  std::vector<ByteRange> matches(std::string_view text) const;

  /// Matches in a text that goes on: those that are the same whatever follows.
  struct Known {
    std::vector<ByteRange> matches;
    std::size_t end = 0;  ///< the first byte that may be in a match that is not known
  };
  Known known_matches(std::string_view text) const;

 private:
  class Code;
  class Compiled;
  class OneOf;
  explicit Regex(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace troupe::stages
