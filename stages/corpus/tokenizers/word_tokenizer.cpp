#include "stages/corpus/tokenizers/word_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "stages/corpus/tokenizers/text/utf8.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

/// How many shorter texts are tried if words of a normalized text end where the text as it is
/// cannot be cut.
constexpr int kMostShorter = 16;

/// The last part of a text that certainly begins a section of it, and does not reach into a token
/// of `longest` bytes that may begin near the end of the text.
struct OpenSection {
  std::size_t begin = 0;
  std::string_view text;  ///< empty if it is a token
};
OpenSection last_open_section(std::string_view text, const std::vector<Section>& sections,
                              std::size_t longest) {
  std::size_t end = text.size() - std::min(text.size(), longest == 0 ? 0 : longest - 1);
  while (end > 0 && end < text.size() && (text[end] & 0xc0) == 0x80) --end;
  OpenSection last;
  for (const auto& [section, token] : sections) {
    const auto begin = static_cast<std::size_t>(section.data() - text.data());
    if (begin >= end) break;
    last = {.begin = begin,
            .text = token ? std::string_view()
                          : section.substr(0, std::min(section.size(), end - begin))};
  }
  return last;
}

}  // namespace

WordTokenizer::WordTokenizer(TokenizerParts parts)
    : parts_(std::move(parts)), added_(parts_.found, parts_.normalizer) {}

std::unique_ptr<WordTokenizer::Scratch> WordTokenizer::Scratches::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return std::make_unique<Scratch>();
  auto scratch = std::move(free_.back());
  free_.pop_back();
  return scratch;
}

void WordTokenizer::Scratches::give_back(std::unique_ptr<Scratch> scratch) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(scratch));
}

std::vector<std::int32_t> WordTokenizer::encode(std::string_view text, Place place) const {
  if (!is_valid_utf8(text)) return encode(valid_utf8(text), place);
  if (text.size() > INT32_MAX)
    throw Error(ErrorKind::data, fmt::format("a text of {} bytes that cannot be cut; at most {} "
                                             "can be encoded",
                                             text.size(), INT32_MAX));
  std::vector<std::int32_t> ids;
  auto scratch = scratches_.take();
  Origin origin = place == Place::start ? Origin::start : Origin::after_newline;
  for (const auto& [section, token] : added_.split(text)) {
    if (token)
      ids.push_back(*token);
    else
      encode_section(section, origin, *scratch, ids);
    origin = Origin::within;
  }
  scratches_.give_back(std::move(scratch));
  return ids;
}

/// Encodes a text between two added tokens.
void WordTokenizer::encode_section(std::string_view text, Origin origin, Scratch& scratch,
                                   std::vector<std::int32_t>& ids) const {
  std::string normalized;
  if (!parts_.normalizer.changes_nothing()) {
    normalized = parts_.normalizer.apply(
        text, origin == Origin::after_newline ? Place::after_newline : Place::start);
    text = normalized;
  }
  for (const auto& [section, token] : added_.split_normalized(text)) {
    if (token)
      ids.push_back(*token);
    else
      encode_words({.words = {{.text = section, .origin = origin}}, .made = {}}, scratch, ids);
    origin = Origin::within;
  }
}

void WordTokenizer::encode_words(Words words, Scratch& scratch,
                                 std::vector<std::int32_t>& ids) const {
  parts_.pre_tokenizer.apply(words);
  for (const Word& word : words.words) parts_.model->encode(word.text, scratch, ids);
}

bool WordTokenizer::may_cut_at_newlines() const {
  const auto at_cut = parts_.pre_tokenizer.at_cut();
  const bool words_allow =
      at_cut == PreTokenizer::AtCut::ends_words ||
      (at_cut == PreTokenizer::AtCut::cuts_word && parts_.model->allows_cuts());
  return words_allow && added_.allows_cuts() && parts_.normalizer.allows_cuts();
}

bool WordTokenizer::may_cut_at_words() const {
  return added_.allows_word_cuts() && parts_.normalizer.allows_cuts() &&
         !parts_.normalizer.prepends();
}

Cuts WordTokenizer::cuts() const {
  Cuts::Finder at_words;
  if (may_cut_at_words()) at_words = [this](std::string_view text) { return last_word_in(text); };
  return {may_cut_at_newlines() ? Cuts::at_lone_newlines : Cuts::nowhere,
          [this](std::string_view rest) { return parts_.pre_tokenizer.may_cut_before(rest); },
          std::move(at_words)};
}

std::size_t WordTokenizer::last_word_in(std::string_view text) const {
  if (!is_valid_utf8(text)) return 0;  // its invalid parts must stay whole
  const auto [begin, section] = last_open_section(text, added_.split(text), added_.longest());
  return at_word(begin, section, last_word_in_section(section));
}

/// The place of a word, or else of its section, which would lose its prefix if it is text.
std::size_t WordTokenizer::at_word(std::size_t begin, std::string_view section,
                                   std::size_t word) const {
  return word == 0 && !section.empty() && parts_.pre_tokenizer.prefixes() ? 0 : begin + word;
}

/// Bytes of a text before the last part of it that is normalized by itself.
std::size_t WordTokenizer::last_part_of(std::string_view text) const {
  std::size_t part = text.size();
  do part -= text.empty() ? 0 : last_char_bytes(text.substr(0, part));
  while (part > 0 && !parts_.normalizer.may_cut_before(first_char(text.substr(part))));
  return part;
}

/// As last_word_in(), in a text without added tokens that are found before it is normalized.
std::size_t WordTokenizer::last_word_in_section(std::string_view text) const {
  // What follows the text may be joined with its end in the normal form.
  if (!parts_.normalizer.changes_nothing()) text = text.substr(0, last_part_of(text));
  for (int round = 0; round < kMostShorter && !text.empty(); ++round) {
    const std::string normalized = parts_.normalizer.apply(text, Place::after_newline);
    const auto [begin, section] = last_open_section(normalized, added_.split_normalized(normalized),
                                                    added_.longest_normalized());
    const std::size_t word = at_word(begin, section, parts_.pre_tokenizer.last_word_in(section));
    if (word == 0 || normalized == text) return word;
    // From the end to where what follows is normalized to what begins with the word.
    std::size_t cut = text.size(), behind = 0;
    while (cut > 0 && normalized.size() - behind > word) {
      const std::size_t end = std::exchange(cut, last_part_of(text.substr(0, cut)));
      behind += parts_.normalizer.apply(text.substr(cut, end - cut), Place::after_newline).size();
    }
    if (normalized.size() - behind == word) return cut;
    text = text.substr(0, cut);
  }
  return 0;
}

std::string WordTokenizer::decode(std::span<const std::int32_t> ids) const {
  check_decodable(ids, vocab_size());
  std::vector<std::string> tokens;
  for (const std::int32_t id : ids)
    if (!parts_.names.is_special(id)) tokens.push_back(parts_.names.name_of(id));
  return parts_.decoder.apply(std::move(tokens));
}

}  // namespace troupe::stages
