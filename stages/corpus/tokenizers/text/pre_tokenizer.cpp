#include "stages/corpus/tokenizers/text/pre_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "stages/corpus/tokenizers/text/byte_alphabet.h"
#include "stages/corpus/tokenizers/text/known_patterns.h"
#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::stages {
namespace {

/// Words by the pre-tokenizer Whitespace, whose \w is that of Unicode Technical Standard 18.
constexpr std::string_view kWhitespaceWords =
    R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+)"
    R"(|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}\p{White_Space}]+)";

}  // namespace

PreTokenizer::PreTokenizer(const std::optional<JsonPart>& part) {
  if (!part) return;
  read(*part);
  if (spells_bytes_) steps_.emplace_back(ReadBytes{});
}

void PreTokenizer::read(const JsonPart& part) {
  const std::string type = part.type();
  if (type == "Sequence") {
    for (const JsonPart& step : part.at("pretokenizers").items()) read(step);
    return;
  }
  if (byte_level_ && !std::exchange(spells_bytes_, true)) {
    steps_.emplace_back(SpellBytes{});
    if (at_cut_ == AtCut::cuts_word) at_cut_ = AtCut::differs;  // a newline is a letter from now on
  }
  read_one(type, part);
}

void PreTokenizer::read_one(const std::string& type, const JsonPart& part) {
  constexpr Delimiters kRemoved = Delimiters::removed, kIsolated = Delimiters::isolated;
  if (type == "Split") {
    read_split(part);
  } else if (type == "Digits") {
    const bool individual = part.flag("individual_digits", false);
    divide(Pattern::of_regex("\\p{N}"), individual ? kIsolated : Delimiters::contiguous);
  } else if (type == "Punctuation") {
    const auto behavior = part.find("behavior");
    divide(Pattern::one_of(unicode_tables().punctuation),
           behavior ? read_delimiters(*behavior) : kIsolated);
  } else if (type == "WhitespaceSplit") {
    divide_at_white_space();
  } else if (type == "BertPreTokenizer") {
    divide_at_white_space();
    divide(Pattern::one_of(unicode_tables().punctuation), kIsolated);
  } else if (type == "Whitespace") {
    if (at_cut_ == AtCut::cuts_word) at_cut_ = AtCut::ends_words;
    add_divide(Regex::of_pcre2(kWhitespaceWords), kRemoved, Matches::are_kept);
  } else if (type == "ByteLevel" || type == "Metaspace") {
    if (byte_level_) part.fail(fmt::format("{} comes after ByteLevel", type));
    type == "ByteLevel" ? read_byte_level(part) : read_metaspace(part);
  } else {
    part.fail(fmt::format(
        "pre-tokenizer {} is none of Split, ByteLevel, Metaspace, Digits, Punctuation, Whitespace, "
        "WhitespaceSplit, BertPreTokenizer, Sequence",
        type));
  }
}

void PreTokenizer::read_split(const JsonPart& part) {
  divide(Pattern::read(part.at("pattern")), read_delimiters(part.at("behavior")),
         part.flag("invert", false) ? Matches::are_kept : Matches::are_delimiters);
}

void PreTokenizer::read_byte_level(const JsonPart& part) {
  if (part.flag("add_prefix_space", true)) prefix({.text = " "});
  if (part.flag("use_regex", true)) divide(Pattern::of_regex(kGpt2Words), Delimiters::isolated);
  byte_level_ = true;
}

void PreTokenizer::read_metaspace(const JsonPart& part) {
  const std::string mark = part.at("replacement").text();
  const std::string scheme = part.text("prepend_scheme", "always");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    part.fail(fmt::format("prepend_scheme {} is none of always, first, never", scheme));
  // Files of older versions have this member instead.
  if (part.flag("add_prefix_space", scheme != "never") != (scheme != "never"))
    part.fail("add_prefix_space contradicts prepend_scheme");
  if (mark.empty()) part.at("replacement").fail("must not be empty");
  const bool splits = part.flag("split", true);
  begins_words_at_spaces_ |= splits && steps_.empty();
  steps_.emplace_back(ReplaceSpaces{.with = mark});
  if (scheme != "never") prefix({.text = mark, .only_at_start = scheme == "first"});
  if (splits) divide(Pattern::of_text(mark), Delimiters::merged_with_next);
}

void PreTokenizer::divide_at_white_space() {
  if (at_cut_ == AtCut::cuts_word) at_cut_ = AtCut::ends_words;
  add_divide(Regex("\\s"), Delimiters::removed, Matches::are_delimiters);
}

void PreTokenizer::divide(Pattern pattern, Delimiters delimiters, Matches matches) {
  // Where a word ends anyway, later steps do not see that the text was cut there.
  if (at_cut_ == AtCut::cuts_word) {
    auto& [kind, takes_newlines, not_before] = pattern.line_ends;
    const bool merges = delimiters != Delimiters::isolated && delimiters != Delimiters::removed;
    if (kind == LineEnds::Kind::unknown || (merges && takes_newlines))
      at_cut_ = AtCut::differs;
    else if (kind == LineEnds::Kind::ended)
      at_cut_ = AtCut::ends_words;
    if (not_before) not_before_.push_back(std::move(*not_before));
  }
  add_divide(std::move(pattern.regex), delimiters, matches);
}

void PreTokenizer::add_divide(Regex pattern, Delimiters delimiters, Matches matches) {
  steps_.emplace_back(
      Divide{.pattern = std::move(pattern), .delimiters = delimiters, .matches = matches});
}

void PreTokenizer::prefix(Prefix step) {
  // In the whole document a word at the cut would get the prefix if a step had divided there.
  if (!step.only_at_start && std::ranges::any_of(steps_, [](const Step& before) {
        return std::holds_alternative<Divide>(before);
      }))
    at_cut_ = AtCut::differs;
  steps_.emplace_back(std::move(step));
}

bool PreTokenizer::prefixes() const {
  return std::ranges::any_of(steps_,
                             [](const Step& step) { return std::holds_alternative<Prefix>(step); });
}

bool PreTokenizer::knows_start() const {
  return std::ranges::any_of(steps_, [](const Step& step) {
    const auto* prefix = std::get_if<Prefix>(&step);
    return prefix != nullptr && prefix->only_at_start;
  });
}

bool PreTokenizer::may_cut_before(std::string_view rest) const {
  const std::string_view character = rest.substr(0, first_char_bytes(rest));
  return std::ranges::all_of(not_before_,
                             [&](const Regex& regex) { return regex.matches(character).empty(); });
}

std::size_t PreTokenizer::last_word_in(std::string_view text) const {
  if (begins_words_at_spaces_) {
    const std::size_t space = text.rfind(' ');
    return space == std::string_view::npos ? 0 : space;
  }
  std::size_t begin = 0, end = text.size();
  for (const Step& step : steps_) {
    const auto* divide = std::get_if<Divide>(&step);
    if (divide == nullptr) return std::holds_alternative<SpellBytes>(step) ? begin : 0;
    const LastSplit last = last_split(text.substr(begin, end - begin), divide->pattern,
                                      divide->delimiters, divide->matches);
    end = begin + last.end;
    begin += last.begin;
    if (begin >= end) break;
  }
  return begin;
}

void PreTokenizer::apply(Words& words) const {
  for (const Step& step : steps_)
    std::visit([&words](const auto& kind) { apply(kind, words); }, step);
}

void PreTokenizer::apply(const Divide& step, Words& words) {
  std::vector<Word> divided;
  for (const auto& [text, origin] : words.words)
    for (const std::string_view part : split(text, step.pattern, step.delimiters, step.matches))
      divided.push_back(
          {.text = part, .origin = part.data() == text.data() ? origin : Word::Origin::within});
  words.words = std::move(divided);
}

void PreTokenizer::apply(const ReplaceSpaces& step, Words& words) {
  for (Word& word : words.words) {
    std::string& text = words.made.emplace_back();
    for (const char c : word.text) c == ' ' ? text += step.with : text += c;
    word.text = text;
  }
}

void PreTokenizer::apply(const Prefix& step, Words& words) {
  for (Word& word : words.words) {
    const bool here = step.only_at_start ? word.origin == Word::Origin::start
                                         : word.origin != Word::Origin::after_newline;
    if (here && !word.text.starts_with(step.text))
      word.text = words.made.emplace_back(step.text + std::string(word.text));
  }
}

void PreTokenizer::apply(const SpellBytes& /*step*/, Words& words) {
  for (Word& word : words.words) {
    std::string& text = words.made.emplace_back();
    for (const char byte : word.text) text += letter_of_byte(static_cast<unsigned char>(byte));
    word.text = text;
  }
}

void PreTokenizer::apply(const ReadBytes& /*step*/, Words& words) {
  for (Word& word : words.words)
    word.text = words.made.emplace_back(bytes_of_letters(word.text).value());
}

}  // namespace troupe::stages
