#include "stages/corpus/tokenizers/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <string>

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

struct Regex::Code {
  std::unique_ptr<pcre2_code, Free> pcre2;
  std::string source;  ///< for messages

  Code(std::string_view given, const std::string& pattern, std::uint32_t options) : source(given) {
    const std::unique_ptr<pcre2_compile_context, Free> context(
        pcre2_compile_context_create(nullptr));
    pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
    int error = 0;
    PCRE2_SIZE offset = 0;
    pcre2.reset(
        pcre2_compile(bytes_of(pattern), pattern.size(), options, &error, &offset, context.get()));
    if (!pcre2)
      throw Error(ErrorKind::data,
                  fmt::format("the pattern \"{}\" is wrong: {}", source, message_of(error)));
    std::uint32_t matches_empty = 0;
    pcre2_pattern_info(pcre2.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
    if (matches_empty != 0)
      throw Error(ErrorKind::data,
                  fmt::format("the pattern \"{}\" matches the empty text", source));
    // Where no code can be made at run time, matches are interpreted.
    pcre2_jit_compile(pcre2.get(), PCRE2_JIT_COMPLETE);
  }
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

// In Oniguruma $ is always what it is in PCRE2 with the option for several lines.
Regex::Regex(std::string_view pattern)
    : Regex(std::make_unique<Code>(pattern, to_pcre2(pattern),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE)) {}

Regex Regex::of_pcre2(std::string_view pattern) {
  return Regex(std::make_unique<Code>(pattern, std::string(pattern), PCRE2_UTF | PCRE2_UCP));
}

Regex Regex::literal(std::string_view text) {
  return Regex(std::make_unique<Code>(text, std::string(text), PCRE2_UTF | PCRE2_LITERAL));
}

std::vector<ByteRange> Regex::matches(std::string_view text) const {
  std::vector<ByteRange> found;
  const std::unique_ptr<pcre2_match_data, Free> data(pcre2_match_data_create(1, nullptr));
  const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(data.get());
  const auto match = [&](std::size_t from, std::uint32_t options) {
    return pcre2_match(code_->pcre2.get(), bytes_of(text), text.size(), from,
                       PCRE2_NO_UTF_CHECK | options, data.get(), nullptr);
  };
  for (std::size_t from = 0; from < text.size(); from = ends[1]) {
    int result = match(from, 0);
    // Compiled matching has a small stack; interpreted matching takes its memory from the heap.
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(from, PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0)
      throw Error(ErrorKind::data, fmt::format("the pattern \"{}\" fails on a text of {} bytes: {}",
                                               code_->source, text.size(), message_of(result)));
    found.push_back({.begin = ends[0], .end = ends[1]});
  }
  return found;
}

}  // namespace troupe::stages
