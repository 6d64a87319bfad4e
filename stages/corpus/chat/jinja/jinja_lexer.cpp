#include "stages/corpus/chat/jinja/jinja_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "stages/corpus/chat/jinja/values/python_strings.h"
#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::stages {
namespace {

using Kind = JinjaToken::Kind;

/// The characters of names, of which the first ten begin none, but integers.
constexpr std::string_view kWord =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
constexpr std::string_view kDigits = kWord.substr(0, 10);
/// The longest first.
constexpr std::array<std::string_view, 27> kSymbols{
    "==", "!=", ">=", "<=", "//", "**", ">", "<", "=", "+", "-", "*", "/", "%",
    "~",  "[",  "]",  "(",  ")",  "{",  "}", ".", ":", "|", ",", ";", "!"};
/// Digits of the longest integer: none of 64 bits overflows.
constexpr std::size_t kMostDigits = 18;
constexpr std::size_t kMostNumber = 40;  ///< characters of one with a fraction or an exponent

/// The source with each line ended by \n, and without the newline at its end.
std::string with_plain_newlines(std::string_view source) {
  std::string plain;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r')
      plain += source[i];
    else if (i + 1 == source.size() || source[i + 1] != '\n')
      plain += '\n';
  }
  if (plain.ends_with('\n')) plain.pop_back();
  return plain;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_newlines(source)) {}

  std::vector<JinjaToken> tokens() {
    while (at_ < source_.size()) {
      const std::size_t tag = next_tag();
      add_data(tag);
      if (tag == source_.size()) break;
      skip(tag + 2);
      if (at("-") || at("+")) skip(at_ + 1);
      const char kind = source_[tag + 1];
      if (kind == '#')
        pass_comment();
      else if (kind == '%')
        add_tag(Kind::block_begin, Kind::block_end, "%}");
      else
        add_tag(Kind::variable_begin, Kind::variable_end, "}}");
    }
    add(Kind::end, "");
    return std::move(tokens_);
  }

 private:
  bool at(std::string_view text) const {
    return std::string_view(source_).substr(at_).starts_with(text);
  }
  void skip(std::size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + std::ptrdiff_t(at_),
                                         source_.begin() + std::ptrdiff_t(to), '\n'));
    at_ = to;
  }
  void skip_space() {
    const std::string_view rest = std::string_view(source_).substr(at_);
    skip(source_.size() - without_front(rest, is_python_space).size());
  }
  void add(Kind kind, std::string text) {
    tokens_.push_back({.kind = kind, .text = std::move(text), .line = line_});
  }

  std::size_t next_tag() const {
    for (std::size_t brace = source_.find('{', at_); brace != std::string::npos;
         brace = source_.find('{', brace + 1))
      if (brace + 1 < source_.size() &&
          std::string_view("{%#").find(source_[brace + 1]) != std::string_view::npos)
        return brace;
    return source_.size();
  }

  /// Adds the text before a tag, or the end of the source, as far as the tag leaves it.
  void add_data(std::size_t tag) {
    std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    const std::string_view sign =
        std::string_view(source_).substr(std::min(tag + 2, source_.size()));
    if (sign.starts_with('-')) {
      text = without_back(text, is_python_space);
    } else if (tag < source_.size() && source_[tag + 1] != '{' && !sign.starts_with('+')) {
      const std::size_t line = text.rfind('\n') + 1;  // 0 without a newline
      const bool begins_line = line > 0 || at_ == 0 || source_[at_ - 1] == '\n';
      if (begins_line && without_front(text.substr(line), is_python_space).empty())
        text = text.substr(0, line);
    }
    if (!text.empty()) add(Kind::data, std::string(text));
    skip(tag);
  }

  void pass_comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string::npos) fail_in_line(line_, "a comment {# has no end #}");
    const char sign = end > at_ ? source_[end - 1] : ' ';
    skip(end + 2);
    if (sign == '-') skip_space();
    if (sign != '-' && sign != '+' && at("\n")) skip(at_ + 1);
  }

  void add_tag(Kind begin, Kind end, std::string_view end_text) {
    add(begin, "");
    int open_brackets = 0;
    while (open_brackets > 0 || !pass_end(end, end_text)) {
      skip_space();
      if (at_ == source_.size()) fail_in_line(line_, fmt::format("a tag has no end {}", end_text));
      if (open_brackets == 0 && pass_end(end, end_text)) return;
      add_inner();
      const JinjaToken& last = tokens_.back();
      if (last.kind != Kind::symbol) continue;
      if (last.text == "(" || last.text == "[" || last.text == "{") ++open_brackets;
      if (last.text == ")" || last.text == "]" || last.text == "}") --open_brackets;
    }
  }

  /// Passes the end of a tag, and what of the white space behind it is trimmed.
  bool pass_end(Kind kind, std::string_view end) {
    const bool is_block = kind == Kind::block_end;
    const bool trims = at(fmt::format("-{}", end)), keeps = is_block && at(fmt::format("+{}", end));
    if (!trims && !keeps && !at(end)) return false;
    add(kind, "");
    skip(at_ + (trims || keeps ? 1 : 0) + end.size());
    if (trims) skip_space();
    if (is_block && !trims && !keeps && at("\n")) skip(at_ + 1);
    return true;
  }

  /// Adds a token inside a tag.
  void add_inner() {
    const char first = source_[at_];
    if (first == '\'' || first == '"') return add_string(first);
    if (kDigits.find(first) != std::string_view::npos) return add_number();
    if (kWord.find(first) != std::string_view::npos) {
      add(Kind::name, word());
      return skip(at_ + tokens_.back().text.size());
    }
    for (const std::string_view symbol : kSymbols) {
      if (!at(symbol)) continue;
      add(Kind::symbol, std::string(symbol));
      return skip(at_ + symbol.size());
    }
    const std::string_view rest = std::string_view(source_).substr(at_);
    fail_in_line(line_, fmt::format("'{}' is not supported in a tag",
                                    rest.substr(0, first_char_bytes(rest))));
  }

  /// The letters and digits that begin here.
  std::string word() const {
    return source_.substr(at_, source_.find_first_not_of(kWord, at_) - at_);
  }

  void add_number() {
    const std::size_t end = end_of_number();
    const std::string text = source_.substr(at_, end - at_);
    const bool is_integer = text.find_first_not_of(kDigits) == std::string::npos;
    const bool is_word = end < source_.size() && kWord.find(source_[end]) != kWord.npos;
    if (is_word || text.size() > (is_integer ? kMostDigits : kMostNumber) ||
        (is_integer && text[0] == '0' && text.size() > 1))
      fail_in_line(line_, fmt::format("the number that begins with {} is not supported, only "
                                      "decimal ones of up to {} digits",
                                      text, kMostDigits));
    add(is_integer ? Kind::integer : Kind::number, text);
    skip(end);
  }

  std::size_t behind_digits(std::size_t at) const {
    return std::min(source_.find_first_not_of(kDigits, at), source_.size());
  }
  /// Where the digits that begin here end, with a fraction and an exponent.
  std::size_t end_of_number() const {
    std::size_t end = behind_digits(at_);
    if (end + 1 < source_.size() && source_[end] == '.' && behind_digits(end + 1) > end + 1)
      end = behind_digits(end + 1);
    if (end + 1 >= source_.size() || (source_[end] | 0x20) != 'e') return end;
    const std::size_t exponent = end + (source_[end + 1] == '-' || source_[end + 1] == '+' ? 2 : 1);
    return behind_digits(exponent) > exponent ? behind_digits(exponent) : end;
  }

  void add_string(char quote) {
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_in_line(line_, "a string has no end");
    add(Kind::string, unescaped(std::string_view(source_).substr(at_ + 1, end - at_ - 1), line_));
    skip(end + 1);
  }

  const std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<JinjaToken> tokens_;
};

}  // namespace

std::vector<JinjaToken> jinja_tokens(std::string_view source) {
  return Lexer(source).tokens();
}

}  // namespace troupe::stages
