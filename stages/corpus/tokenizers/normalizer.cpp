#include "stages/corpus/tokenizers/normalizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::stages {
namespace {

constexpr std::array<std::pair<std::string_view, NormalForm>, 4> kForms{
    {{"NFC", NormalForm::nfc},
     {"NFD", NormalForm::nfd},
     {"NFKC", NormalForm::nfkc},
     {"NFKD", NormalForm::nfkd}}};

/// The characters that BertNormalizer takes for Chinese words.
constexpr auto kChinese = std::to_array<CharacterRange>({{0x3400, 0x4dbf},
                                                         {0x4e00, 0x9fff},
                                                         {0xf900, 0xfaff},
                                                         {0x20000, 0x2a6df},
                                                         {0x2a700, 0x2b81f},
                                                         {0x2b920, 0x2ceaf},
                                                         {0x2f800, 0x2fa1f}});

/// Adds what `replacement` makes of each character, as a text.
template <typename Replacement>
std::string mapped(std::string_view text, const Replacement& replacement) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0, bytes = 0; at < text.size(); at += bytes) {
    const std::string_view rest = text.substr(at);
    bytes = first_char_bytes(rest);
    result += replacement(first_char(rest), rest.substr(0, bytes));
  }
  return result;
}

std::string without(std::string_view text, std::span<const CharacterRange> set) {
  return mapped(text, [set](char32_t c, std::string_view same) {
    return find_range(set, c) ? std::string_view() : same;
  });
}

/// White space becomes spaces, and characters that control something go.
std::string cleaned(std::string_view text) {
  return mapped(text, [](char32_t c, std::string_view same) -> std::string_view {
    if (c < 0x7f && c >= ' ') return same;
    if (find_range(unicode_tables().cleaned, c) != nullptr) return "";
    return is_white_space(c) ? " " : same;
  });
}

std::string with_chinese_divided(std::string_view text) {
  return mapped(text, [](char32_t c, std::string_view same) {
    const bool is_chinese = find_range(std::span<const CharacterRange>(kChinese), c) != nullptr;
    return is_chinese ? fmt::format(" {} ", same) : std::string(same);
  });
}

}  // namespace

Normalizer::Normalizer(const std::optional<JsonPart>& part) {
  if (part) read(*part);
}

void Normalizer::read(const JsonPart& part) {
  const std::string type = part.type();
  if (type == "Sequence")
    for (const JsonPart& step : part.at("normalizers").items()) read(step);
  else
    steps_.push_back(read_step(type, part));
}

Normalizer::Step Normalizer::read_step(const std::string& type, const JsonPart& part) {
  for (const auto& [name, form] : kForms)
    if (type == name) return form;
  if (type == "Prepend") return Prepend{part.at("prepend").text()};
  if (type == "Replace") return read_replace(part);
  if (type == "Strip")
    return Strip{.left = part.flag("strip_left", true), .right = part.flag("strip_right", true)};
  if (type == "Lowercase") return Lowercase{};
  if (type == "StripAccents") return StripAccents{};
  if (type == "BertNormalizer") {
    const bool lowercase = part.flag("lowercase", true);
    return Bert{.cleans_text = part.flag("clean_text", true),
                .divides_chinese = part.flag("handle_chinese_chars", true),
                .strips_accents = part.flag("strip_accents", lowercase),
                .lowercase = lowercase};
  }
  if (type == "Precompiled")
    part.fail("the normalizer Precompiled, a table of SentencePiece, is not supported");
  part.fail(
      fmt::format("normalizer {} is none of NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip, "
                  "Lowercase, StripAccents, BertNormalizer, Sequence",
                  type));
}

Normalizer::Replace Normalizer::read_replace(const JsonPart& part) {
  Replace replace{.pattern = Pattern::read(part.at("pattern")), .with = part.at("content").text()};
  if (!replace.pattern.literal && replace.with.find('$') != std::string::npos)
    part.fail("\"content\" with a $ means different texts in different versions of tokenizers");
  return replace;
}

bool Normalizer::prepends() const {
  return std::ranges::any_of(
      steps_, [](const auto& step) { return std::holds_alternative<Prepend>(step); });
}

// A cut lies between a newline and a character that is no white space: neither is a space, and a
// newline is joined with nothing in any normal form.
bool Normalizer::allows_cuts() const {
  return std::ranges::all_of(steps_, [](const auto& step) {
    if (std::holds_alternative<Strip>(step)) return false;
    const auto* replace = std::get_if<Replace>(&step);
    return replace == nullptr || (replace->pattern.literal && replace->pattern.source == " ");
  });
}

bool Normalizer::may_cut_before(char32_t character) const {
  return steps_.empty() || begins_normal_form(character);
}

std::string Normalizer::apply(std::string_view text, Place place) const {
  std::string result(text);
  for (const Step& step : steps_)
    result = std::visit([&](const auto& kind) { return apply(kind, result, place); }, step);
  return result;
}

std::string Normalizer::apply(NormalForm form, std::string_view text, Place /*place*/) {
  return normal_form(text, form);
}

std::string Normalizer::apply(const Prepend& step, std::string_view text, Place place) {
  const bool begins = place == Place::start && !text.empty();
  return (begins ? step.text : "") + std::string(text);
}

std::string Normalizer::apply(const Replace& step, std::string_view text, Place /*place*/) {
  return replace_all(text, step.pattern.regex, step.with);
}

std::string Normalizer::apply(const Strip& step, std::string_view text, Place /*place*/) {
  if (step.left) text = without_front(text, is_white_space);
  if (step.right) text = without_back(text, is_white_space);
  return std::string(text);
}

std::string Normalizer::apply(const Lowercase& /*step*/, std::string_view text, Place /*place*/) {
  return lower_case(text);
}

std::string Normalizer::apply(const StripAccents& /*step*/, std::string_view text,
                              Place /*place*/) {
  return without(text, unicode_tables().marks);
}

std::string Normalizer::apply(const Bert& step, std::string_view text, Place /*place*/) {
  std::string result(text);
  if (step.cleans_text) result = cleaned(result);
  if (step.divides_chinese) result = with_chinese_divided(result);
  if (step.strips_accents)
    result = without(normal_form(result, NormalForm::nfd), unicode_tables().bert_marks);
  if (step.lowercase) result = lower_case(result);
  return result;
}

std::string replace_all(std::string_view text, const Regex& pattern, std::string_view with) {
  std::string result;
  std::size_t done = 0;
  for (const ByteRange match : pattern.matches(text)) {
    result += text.substr(done, match.begin - done);
    result += with;
    done = match.end;
  }
  return result += text.substr(done);
}

}  // namespace troupe::stages
