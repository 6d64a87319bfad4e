#include "stages/corpus/tokenizers/text/regex_syntax.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <utility>

#include "stages/corpus/tokenizers/text/utf8.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using Item = Pcre2Pattern::Item;

/// Unicode's general categories and a property, which have the same members in both engines but for
/// newer characters, as have the scripts of which each such character has a stand-in.
constexpr std::string_view kProperties =
    " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc "
    "Cf Co White_Space ";
constexpr std::string_view kScripts = " Han Hiragana Katakana Hangul Latin Greek Hebrew Thai ";

/// Letters that together are one character without case, as the ligature U+FB01 is "fi": to
/// Oniguruma, but not to PCRE2.
constexpr std::array<std::string_view, 5> kLigatures{"ss", "st", "ff", "fi", "fl"};

/// Characters before this are in the tables of both engines.
constexpr char32_t kFirstNamed = 0x800;

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Pcre2Pattern translate() {
    result_.alternatives.emplace_back();
    alternatives(/*depth=*/0);
    if (!at_end()) refuse(") without a (");
    result_.text = std::move(out_);
    return std::move(result_);
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
  std::string_view take(std::size_t bytes) {
    return pattern_.substr(std::exchange(at_, at_ + bytes), bytes);
  }
  bool take_if(std::string_view text) {
    if (!next_is(text)) return false;
    at_ += text.size();
    return true;
  }
  /// Copies the next bytes to the result.
  void copy(std::size_t bytes) { out_ += take(bytes); }
  bool copy_if(std::string_view text) {
    if (!next_is(text)) return false;
    copy(text.size());
    return true;
  }

  void alternatives(int depth) {
    if (depth > kMostNested) refuse("too many nested groups");
    while (!at_end() && !next_is(")")) {
      if (!copy_if("|"))
        repeated_part(depth);
      else if (depth == 0)
        result_.alternatives.emplace_back();
    }
  }

  void repeated_part(int depth) {
    const bool look_ahead = next_is("(?=") || next_is("(?!");
    const std::size_t begin = out_.size();
    Item item{.kind = part(depth), .source = out_.substr(begin)};
    if (next_is_one_of("?*+{")) {
      if (look_ahead) refuse("a repeated look-ahead");
      item.optional = next_is_one_of("?*") || next_is("{0,") || next_is("{0}");
      item.repeats = !next_is("?");
      quantifier();
      if (next_is_one_of("?*+{")) refuse("two quantifiers in a row");
    }
    if (depth == 0) result_.alternatives.back().push_back(std::move(item));
  }

  Item::Kind part(int depth) {
    const char c = pattern_[at_];
    if (c == '(') return group(depth);
    if (next_is_one_of("^?*+{})]")) refuse(fmt::format("'{}' here", c));
    if (c == '[')
      out_ += set(/*depth=*/0);
    else if (c == '\\')
      out_ += escape();
    else if (c == '$' || c == '.')
      copy(1);
    else
      out_ += character();
    return c == '$' ? Item::Kind::assertion : Item::Kind::character;
  }

  Item::Kind group(int depth) {
    if (next_is("(?i:")) {
      group_without_case();
      return Item::Kind::letters;
    }
    const bool asserts = next_is("(?=") || next_is("(?!");
    if (!copy_if("(?:") && !copy_if("(?=") && !copy_if("(?!")) {
      if (next_is("(?") || next_is("(*")) refuse("this kind of group");
      copy(1);
    }
    alternatives(depth + 1);
    if (!copy_if(")")) refuse("a group without its end");
    return asserts ? Item::Kind::assertion : Item::Kind::group;
  }

  /// Literal ASCII alone, and sets of it: there both engines know the same variants of a letter.
  void group_without_case() {
    copy(4);
    std::string letters;
    while (!next_is(")")) {
      if (copy_if("[")) {
        copy_letters("");
        if (!copy_if("]")) refuse("more than letters and digits in a set without case");
        letters += '|';
      } else {
        const std::string more = copy_letters("'| ");
        if (more.empty()) refuse("more than letters and digits in a group without case");
        letters += more;
      }
    }
    for (char& c : letters) c = static_cast<char>(std::tolower(c));
    for (const std::string_view ligature : kLigatures)
      if (letters.find(ligature) != std::string::npos)
        refuse(fmt::format("\"{}\" without case", ligature));
    copy(1);
  }

  std::string copy_letters(std::string_view others) {
    const std::size_t begin = at_;
    while (next_is_one_of(others) ||
           (!at_end() && std::isalnum(static_cast<unsigned char>(pattern_[at_]))))
      copy(1);
    return std::string(pattern_.substr(begin, at_ - begin));
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

  /// What matches a character of a set. PCRE2 has no sets within sets: these become alternatives,
  /// and an intersection looks ahead for all of its sets but the last.
  std::string set(int depth) {
    if (depth > kMostNested) refuse("too many nested sets");
    take(1);
    const bool is_negated = take_if("^");
    std::vector<std::string> united;
    std::string all;
    bool is_plain = true;
    do {
      std::vector<std::string> sets;
      const std::string members = set_members(depth, sets);
      if (members.empty() && sets.empty()) refuse("an empty set");
      is_plain &= sets.empty();
      if (is_plain) all = members;
      if (!members.empty()) sets.insert(sets.begin(), fmt::format("[{}]", members));
      united.push_back(sets.size() == 1 ? sets[0] : fmt::format("(?:{})", fmt::join(sets, "|")));
    } while (take_if("&&"));
    if (!take_if("]")) refuse("a set without its end");
    if (is_plain && united.size() == 1) return fmt::format("[{}{}]", is_negated ? "^" : "", all);
    std::string result = united.back();
    united.pop_back();
    for (const std::string& other : united) result = fmt::format("(?={}){}", other, result);
    return is_negated ? fmt::format("(?:(?!{})(?s:.))", result) : fmt::format("(?:{})", result);
  }

  /// The members up to the end of a set or an &&, in the syntax of PCRE2; sets among them apart.
  std::string set_members(int depth, std::vector<std::string>& sets) {
    std::string members;
    while (!next_is("]") && !next_is("&&")) {
      if (at_end()) refuse("a set without its end");
      if (next_is("[:")) refuse("this in a set");
      if (next_is("["))
        sets.push_back(set(depth + 1));
      else
        members += set_member();
    }
    return members;
  }

  /// A character, a range of them, or a property.
  std::string set_member() {
    const auto one = [&] { return next_is("\\") ? escape() : character(); };
    std::string first = one();
    const std::optional<char32_t> begin = last_;
    const bool ranges = next_is("-") && !next_is("-]") && !next_is("-&&") && !next_is("-[");
    if (!begin || !ranges) return first;
    take(1);
    if (at_end()) refuse("a set without its end");
    const std::string second = one();
    if (!last_) refuse("a range that does not end with a character");
    if (*last_ >= kFirstNamed) result_.named.push_back({*begin, *last_});
    return first + "-" + second;
  }

  // These two return what is meant in PCRE2 and set last_ to the character, if it is one.

  std::string escape() {
    if (at_ + 1 == pattern_.size()) refuse("a backslash at the end");
    last_.reset();
    const char c = pattern_[at_ + 1];
    if (c == 's' || c == 'S') {  // PCRE2's own has U+180E, which is white space no more
      at_ += 2;
      return c == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
    }
    if (c == 'p' || c == 'P') return property();
    if (c == 'u') return code_point();
    if (c == 'd' || c == 'D') return std::string(take(2));
    constexpr std::string_view kLetters = "nrt", kMeant = "\n\r\t";
    const std::size_t letter = kLetters.find(c);
    if (letter == std::string_view::npos && !std::ispunct(static_cast<unsigned char>(c)))
      refuse(fmt::format("\\{}", c));
    name(static_cast<unsigned char>(letter == std::string_view::npos ? c : kMeant[letter]));
    return std::string(take(2));
  }

  std::string character() {
    const std::string_view rest = pattern_.substr(at_);
    name(first_char(rest));
    return std::string(take(first_char_bytes(rest)));
  }

  void name(char32_t character) {
    last_ = character;
    if (character >= kFirstNamed) result_.named.push_back({character, character});
  }

  std::string property() {
    const std::size_t end = pattern_.find('}', at_);
    const std::string_view name = pattern_.substr(at_, end - at_);  // as \p{L
    const auto is_of = [&](std::string_view names) {
      return names.find(fmt::format(" {} ", name.substr(3))) != std::string_view::npos;
    };
    if (end == std::string_view::npos || name.size() < 4 || name[2] != '{' ||
        (!is_of(kProperties) && !is_of(kScripts)))
      refuse(fmt::format("{}, which is no property that is known here", name));
    at_ = end + 1;
    return fmt::format("{}{}{}}}", name.substr(0, 3), is_of(kScripts) ? "sc:" : "", name.substr(3));
  }

  /// \uHHHH.
  std::string code_point() {
    const std::string_view digits = pattern_.substr(at_ + 2, 4);
    std::uint32_t value = 0;
    const char* const end = digits.data() + digits.size();
    if (digits.size() != 4 || std::from_chars(digits.data(), end, value, 16).ptr != end)
      refuse("\\u without four digits");
    name(value);
    at_ += 6;
    return fmt::format("\\x{{{}}}", digits);
  }

  const std::string_view pattern_;
  std::size_t at_ = 0;
  std::string out_;
  Pcre2Pattern result_;
  std::optional<char32_t> last_;
};

}  // namespace

Pcre2Pattern to_pcre2(std::string_view pattern) {
  return Translator(pattern).translate();
}

}  // namespace troupe::stages
