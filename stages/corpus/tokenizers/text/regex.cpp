#include "stages/corpus/tokenizers/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "stages/corpus/tokenizers/text/newer_characters.h"
#include "stages/corpus/tokenizers/text/regex_syntax.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};

PCRE2_SPTR bytes_of(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

/// What finds matches.
class Regex::Code {
 public:
  virtual ~Code() = default;
  virtual Known find(std::string_view text, bool goes_on) const = 0;
};

class Regex::Compiled final : public Code {
 public:
  Compiled(std::string_view given, const std::string& pattern, std::uint32_t options,
           std::optional<NewerCharacters> newer)
      : newer_(std::move(newer)), source_(given) {
    const std::unique_ptr<pcre2_compile_context, Free> context(
        pcre2_compile_context_create(nullptr));
    pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(
        pcre2_compile(bytes_of(pattern), pattern.size(), options, &error, &offset, context.get()));
    if (!code_)
      throw Error(ErrorKind::data,
                  fmt::format("the pattern \"{}\" is wrong: {}", source_, message_of(error)));
    std::uint32_t matches_empty = 0;
    pcre2_pattern_info(code_.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
    if (matches_empty != 0)
      throw Error(ErrorKind::data,
                  fmt::format("the pattern \"{}\" matches the empty text", source_));
    // Where no code can be made at run time, matches are interpreted.
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
  }

  Known find(std::string_view text, bool goes_on) const override {
    const std::optional<std::string> other = newer_ ? newer_->replaced(text) : std::nullopt;
    if (other) text = *other;
    Known found{.matches = {}, .end = text.size()};
    const std::unique_ptr<pcre2_match_data, Free> data(pcre2_match_data_create(1, nullptr));
    const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(data.get());
    for (std::size_t from = 0; from < text.size(); from = ends[1]) {
      const int result = match(text, from, goes_on ? PCRE2_PARTIAL_HARD : 0, data.get());
      if (result == PCRE2_ERROR_NOMATCH) break;
      if (result == PCRE2_ERROR_PARTIAL) {
        found.end = ends[0];
        break;
      }
      found.matches.push_back({.begin = ends[0], .end = ends[1]});
    }
    return found;
  }

 private:
  int match(std::string_view text, std::size_t from, std::uint32_t options,
            pcre2_match_data* data) const {
    const auto run = [&](std::uint32_t more) {
      return pcre2_match(code_.get(), bytes_of(text), text.size(), from,
                         PCRE2_NO_UTF_CHECK | options | more, data, nullptr);
    };
    int result = run(0);
    // Compiled matching has a small stack; interpreted matching takes its memory from the heap.
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = run(PCRE2_NO_JIT);
    if (result < 0 && result != PCRE2_ERROR_NOMATCH && result != PCRE2_ERROR_PARTIAL)
      throw Error(ErrorKind::data, fmt::format("the pattern \"{}\" fails on a text of {} bytes: {}",
                                               source_, text.size(), message_of(result)));
    return result;
  }

  std::unique_ptr<pcre2_code, Free> code_;
  std::optional<NewerCharacters> newer_;
  std::string source_;  ///< for messages
};

class Regex::OneOf final : public Code {
 public:
  explicit OneOf(std::span<const CharacterRange> set) : set_(set) {}

  Known find(std::string_view text, bool /*goes_on*/) const override {
    Known found{.matches = {}, .end = text.size()};
    for (std::size_t at = 0, bytes = 0; at < text.size(); at += bytes) {
      const std::string_view rest = text.substr(at);
      bytes = first_char_bytes(rest);
      if (find_range(set_, first_char(rest)) != nullptr)
        found.matches.push_back({.begin = at, .end = at + bytes});
    }
    return found;
  }

 private:
  std::span<const CharacterRange> set_;
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

namespace {

NewerCharacters newer_for(std::string_view given, const Pcre2Pattern& pattern) {
  try {
    return NewerCharacters(pattern.named);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("the pattern \"{}\" cannot be matched exactly: {}", given,
                                          error.what()));
  }
}

}  // namespace

Regex::Regex(std::string_view pattern) : Regex(pattern, to_pcre2(pattern)) {}

// In Oniguruma $ is always what it is in PCRE2 with the option for several lines.
Regex::Regex(std::string_view given, const Pcre2Pattern& pattern)
    : Regex(std::make_unique<Compiled>(given, pattern.text, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE,
                                       newer_for(given, pattern))) {}

Regex Regex::of_pcre2(std::string_view pattern) {
  return Regex(std::make_unique<Compiled>(pattern, std::string(pattern), PCRE2_UTF | PCRE2_UCP,
                                          NewerCharacters({})));
}

Regex Regex::literal(std::string_view text) {
  return Regex(
      std::make_unique<Compiled>(text, std::string(text), PCRE2_UTF | PCRE2_LITERAL, std::nullopt));
}

Regex Regex::one_of(std::span<const CharacterRange> set) {
  return Regex(std::make_unique<OneOf>(set));
}

std::vector<ByteRange> Regex::matches(std::string_view text) const {
  return code_->find(text, /*goes_on=*/false).matches;
}

Regex::Known Regex::known_matches(std::string_view text) const {
  return code_->find(text, /*goes_on=*/true);
}

}  // namespace troupe::stages
