#include "stages/corpus/tokenizers/text/normal_forms.h"

#include <utf8proc.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <new>

#include "stages/corpus/tokenizers/text/unicode_tables.h"
#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::stages {
namespace {

struct FreeText {
  void operator()(utf8proc_uint8_t* text) const { std::free(text); }
};

/// Characters that are their own normal form and are not composed with what is before them: for
/// NFC, and for all forms. They are most of a text.
constexpr auto kComposed = std::to_array<CharacterRange>({{0x0, 0x2ff},
                                                          {0x400, 0x481},
                                                          {0x3041, 0x3096},
                                                          {0x30a1, 0x30fa},
                                                          {0x4e00, 0x9fff},
                                                          {0xac00, 0xd7a3}});
constexpr auto kSame = std::to_array<CharacterRange>({{0x0, 0x7f}, {0x4e00, 0x9fff}});

utf8proc_option_t options_of(NormalForm form) {
  const bool composes = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool is_compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE |
                                        (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                        (is_compatible ? UTF8PROC_COMPAT : 0));
}

void add_by_utf8proc(std::string_view text, utf8proc_option_t options, std::string& result) {
  if (text.empty()) return;
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &made, options);
  const std::unique_ptr<utf8proc_uint8_t, FreeText> owner(made);
  if (bytes < 0) throw std::bad_alloc();  // the text is UTF-8
  result.append(reinterpret_cast<const char*>(made), static_cast<std::size_t>(bytes));
}

/// Adds a part that begins where another normal form begins. To tokenizers a character that is not
/// in its tables stays what it is, and nothing before it is joined with what is behind.
void add_part(std::string_view part, utf8proc_option_t options, std::string& result) {
  std::size_t begin = 0;
  for (std::size_t at = 0, bytes = 0; at < part.size(); at += bytes) {
    const std::string_view rest = part.substr(at);
    bytes = first_char_bytes(rest);
    if (find_range(unicode_tables().unlike, first_char(rest)) == nullptr) continue;
    add_by_utf8proc(part.substr(begin, at - begin), options, result);
    result += rest.substr(0, bytes);
    begin = at + bytes;
  }
  add_by_utf8proc(part.substr(begin), options, result);
}

}  // namespace

std::string normal_form(std::string_view text, NormalForm form) {
  const std::span<const CharacterRange> same =
      form == NormalForm::nfc ? std::span<const CharacterRange>(kComposed) : kSame;
  const auto stays = [&](std::string_view rest) {
    return static_cast<unsigned char>(rest[0]) < 0x80 ||
           find_range(same, first_char(rest)) != nullptr;
  };
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    std::size_t last = at;  // the last character of those that stay as they are
    for (; at < text.size() && stays(text.substr(at)); at += first_char_bytes(text.substr(at)))
      last = at;
    if (at == text.size()) return result += text.substr(begin);
    // Those that do not are normalized with the one before them.
    result += text.substr(begin, last - begin);
    while (at < text.size() && !stays(text.substr(at))) at += first_char_bytes(text.substr(at));
    add_part(text.substr(last, at - last), options_of(form), result);
  }
  return result;
}

bool begins_normal_form(char32_t character) {
  return find_range(std::span<const CharacterRange>(kComposed), character) != nullptr;
}

std::string lower_case(std::string_view text) {
  constexpr char32_t kCapitalIWithDot = 0x130;  // the only one whose lower case is two characters
  std::string result;
  result.reserve(text.size());
  for (; !text.empty(); text.remove_prefix(first_char_bytes(text))) {
    const char32_t c = first_char(text);
    if (c == kCapitalIWithDot) {
      result += "i\xcc\x87";
    } else if (const LowercaseRange* range = find_range(unicode_tables().lowercase, c)) {
      result += utf8_of(static_cast<char32_t>(static_cast<std::int32_t>(c) + range->added));
    } else {
      result +=
          c < 0x80
              ? std::string(1,
                            c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : static_cast<char>(c))
              : utf8_of(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
    }
  }
  return result;
}

}  // namespace troupe::stages
