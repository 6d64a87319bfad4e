#include "stages/corpus/tokenizers/text/regex_syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "stages/corpus/tokenizers/text/utf8.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

/// Unicode's general categories and a property, which have the same members in both engines. Other
/// properties differ with the version of Unicode, and scripts by their extensions.
constexpr std::string_view kProperties =
    " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc "
    "Cf Co White_Space ";

/// Letters that together are one character without case, as the ligature U+FB01 is "fi": to
/// Oniguruma, but not to PCRE2.
constexpr std::array<std::string_view, 5> kLigatures{"ss", "st", "ff", "fi", "fl"};

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string translate() {
    alternatives(/*depth=*/0);
    if (!at_end()) refuse(") without a (");
    return std::move(out_);
  }

 private:
  static constexpr int kMostNested = 50;

  [[noreturn]] void refuse(std::string_view what) const {
    throw Error(ErrorKind::data,
                fmt::format("the pattern \"{}\" cannot be matched exactly: at byte "
                            "{}: {}",
                            pattern_, at_, what));
  }
  bool at_end() const { return at_ == pattern_.size(); }
  bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool next_is_one_of(std::string_view characters) const {
    return !at_end() && characters.find(pattern_[at_]) != std::string_view::npos;
  }
  /// Copies the next bytes to the result.
  void copy(std::size_t bytes) {
    out_ += pattern_.substr(at_, bytes);
    at_ += bytes;
  }
  bool copy_if(std::string_view text) {
    if (!next_is(text)) return false;
    copy(text.size());
    return true;
  }

  void alternatives(int depth) {
    if (depth > kMostNested) refuse("too many nested groups");
    while (!at_end() && !next_is(")"))
      if (!copy_if("|")) repeated_part(depth);
  }

  void repeated_part(int depth) {
    const bool look_ahead = next_is("(?=") || next_is("(?!");
    part(depth);
    if (!next_is_one_of("?*+{")) return;
    if (look_ahead) refuse("a repeated look-ahead");
    quantifier();
    if (next_is_one_of("?*+{")) refuse("two quantifiers in a row");
  }

  void part(int depth) {
    const char c = pattern_[at_];
    if (c == '(') return group(depth);
    if (c == '[') return set();
    if (c == '\\') return escape();
    if (c == '$' || c == '.') return copy(1);
    if (next_is_one_of("^?*+{})]")) refuse(fmt::format("'{}' here", c));
    character();
  }

  void group(int depth) {
    if (next_is("(?i:")) return group_without_case();
    if (!copy_if("(?:") && !copy_if("(?=") && !copy_if("(?!")) {
      if (next_is("(?") || next_is("(*")) refuse("this kind of group");
      copy(1);
    }
    alternatives(depth + 1);
    if (!copy_if(")")) refuse("a group without its end");
  }

  /// Literal ASCII alone: there both engines know the same variants of a letter.
  void group_without_case() {
    copy(4);
    const std::size_t begin = at_;
    while (next_is_one_of("'| ") ||
           (!at_end() && std::isalnum(static_cast<unsigned char>(pattern_[at_]))))
      copy(1);
    std::string letters(pattern_.substr(begin, at_ - begin));
    for (char& c : letters) c = static_cast<char>(std::tolower(c));
    for (const std::string_view ligature : kLigatures)
      if (letters.find(ligature) != std::string::npos)
        refuse(fmt::format("\"{}\" without case", ligature));
    if (!copy_if(")")) refuse("more than letters and digits in a group without case");
  }

  void quantifier() {
    if (!next_is("{")) {
      copy(1);
      if (!copy_if("?")) copy_if("+");
      return;
    }
    copy(1);
    if (!number()) refuse("a quantifier without a number");
    if (copy_if(",")) number();
    if (!copy_if("}")) refuse("a quantifier without its end");
  }

  bool number() {
    const std::size_t begin = at_;
    while (!at_end() && std::isdigit(static_cast<unsigned char>(pattern_[at_]))) copy(1);
    return at_ > begin;
  }

  void set() {
    copy(1);
    copy_if("^");
    bool empty = true;
    while (!next_is("]") || empty) {
      if (at_end()) refuse("a set without its end");
      if (next_is("[") || next_is("&&") || next_is("]")) refuse("this in a set");
      empty = false;
      if (next_is("\\"))
        escape();
      else
        character();
    }
    copy(1);
  }

  void escape() {
    if (at_ + 1 == pattern_.size()) refuse("a backslash at the end");
    const char c = pattern_[at_ + 1];
    if (c == 's' || c == 'S') {  // PCRE2's own has U+180E, which is white space no more
      out_ += c == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
      at_ += 2;
    } else if (c == 'p' || c == 'P') {
      property();
    } else if (c == 'u') {
      code_point();
    } else if (std::string_view("dDnrt").find(c) != std::string_view::npos ||
               std::ispunct(static_cast<unsigned char>(c))) {
      copy(2);
    } else {
      refuse(fmt::format("\\{}", c));
    }
  }

  void property() {
    const std::size_t end = pattern_.find('}', at_);
    const std::string_view name = pattern_.substr(at_, end - at_);  // as \p{L
    if (end == std::string_view::npos || name.size() < 4 || name[2] != '{' ||
        kProperties.find(fmt::format(" {} ", name.substr(3))) == std::string_view::npos)
      refuse(fmt::format("{}, which is no property that is known here", name));
    copy(end + 1 - at_);
  }

  /// \uHHHH.
  void code_point() {
    const std::string_view digits = pattern_.substr(at_ + 2, 4);
    if (digits.size() != 4 ||
        !std::ranges::all_of(digits, [](unsigned char c) { return std::isxdigit(c); }))
      refuse("\\u without four digits");
    out_ += fmt::format("\\x{{{}}}", digits);
    at_ += 6;
  }

  void character() { copy(first_char_bytes(pattern_.substr(at_))); }

  const std::string_view pattern_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string to_pcre2(std::string_view pattern) {
  return Translator(pattern).translate();
}

}  // namespace troupe::stages
