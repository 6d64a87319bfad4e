#include "stages/corpus/tokenizers/text/pre_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace troupe::stages {
namespace {

constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
/// Patterns whose matches fill a text and do not depend on what lies before them. None reaches from
/// a newline to a character that is no white space, and none that ends with a lone newline depends
/// on what follows.
constexpr std::array<std::string_view, 2> kEndAtNewlines{kGpt2Words, kLlama3Words};

}  // namespace

PreTokenizer::PreTokenizer(const std::optional<JsonPart>& part) {
  if (part) read(*part);
}

void PreTokenizer::read(const JsonPart& part) {
  const std::string type = part.type();
  if (byte_level_) part.fail(fmt::format("{} comes after ByteLevel, which must be last", type));
  if (type == "Sequence") {
    for (const JsonPart& step : part.at("pretokenizers").items()) read(step);
  } else if (type == "Split") {
    read_split(part);
  } else if (type == "ByteLevel") {
    read_byte_level(part);
  } else if (type == "Metaspace") {
    read_metaspace(part);
  } else if (type == "Digits") {
    divide({.pattern = Regex("\\p{N}"),
            .delimiters = part.flag("individual_digits", false) ? Delimiters::isolated
                                                                : Delimiters::contiguous,
            .matches = Matches::are_delimiters},
           AtCut::cuts_word);
  } else {
    part.fail(fmt::format(
        "pre-tokenizer {} is none of Split, ByteLevel, Metaspace, Digits, Sequence", type));
  }
}

void PreTokenizer::read_split(const JsonPart& part) {
  Pattern pattern = Pattern::read(part.at("pattern"));
  const Delimiters delimiters = read_delimiters(part.at("behavior"));
  const bool invert = part.flag("invert", false);
  AtCut at_cut = AtCut::differs;
  if (pattern.literal && pattern.source.find('\n') == std::string::npos)
    at_cut = AtCut::cuts_word;
  else if (!invert && delimiters == Delimiters::isolated &&
           std::ranges::find(kEndAtNewlines, pattern.source) != kEndAtNewlines.end())
    at_cut = AtCut::ends_words;
  divide({.pattern = std::move(pattern.regex),
          .delimiters = delimiters,
          .matches = invert ? Matches::are_kept : Matches::are_delimiters},
         at_cut);
}

void PreTokenizer::read_byte_level(const JsonPart& part) {
  if (part.flag("add_prefix_space", true)) prefix({.text = " "});
  if (part.flag("use_regex", true))
    divide({.pattern = Regex(kGpt2Words),
            .delimiters = Delimiters::isolated,
            .matches = Matches::are_delimiters},
           AtCut::ends_words);
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
  steps_.emplace_back(ReplaceSpaces{.with = mark});
  if (scheme != "never") prefix({.text = mark, .only_at_start = scheme == "first"});
  if (part.flag("split", true))
    divide({.pattern = Regex::literal(mark),
            .delimiters = Delimiters::merged_with_next,
            .matches = Matches::are_delimiters},
           AtCut::cuts_word);
}

void PreTokenizer::divide(Divide step, AtCut at_cut) {
  // Where a word ends anyway, later steps do not see that the text was cut there.
  if (at_cut_ == AtCut::cuts_word) at_cut_ = at_cut;
  steps_.emplace_back(std::move(step));
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

}  // namespace troupe::stages
