#include "stages/corpus/tokenizers/text/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

struct Stretch {
  ByteRange range;
  bool delimiter = false;
};

std::vector<Stretch> stretches_of(std::string_view text, const Regex& pattern, Matches matches) {
  const bool delimiter = matches == Matches::are_delimiters;
  std::vector<Stretch> stretches;
  std::size_t done = 0;
  const auto add = [&](std::size_t end, bool is_delimiter) {
    if (end > done) stretches.push_back({{done, end}, is_delimiter});
    done = end;
  };
  for (const ByteRange match : pattern.matches(text)) {
    add(match.begin, !delimiter);
    add(match.end, delimiter);
  }
  add(text.size(), !delimiter);
  return stretches;
}

/// Whether two neighbours become one part.
bool join(Delimiters delimiters, bool before, bool after) {
  switch (delimiters) {
    case Delimiters::removed:
    case Delimiters::isolated:
      return false;
    case Delimiters::merged_with_previous:
      return after && !before;
    case Delimiters::merged_with_next:
      return before && !after;
    case Delimiters::contiguous:
      return before == after;
  }
  return false;
}

}  // namespace

Pattern Pattern::of_regex(const std::string& source) {
  const Pcre2Pattern translated = to_pcre2(source);
  Regex regex(source, translated);
  LineEnds line_ends = line_ends_of(translated, regex);
  return {.source = source, .regex = std::move(regex), .line_ends = std::move(line_ends)};
}

Pattern Pattern::of_text(const std::string& text) {
  const bool has_newline = text.find('\n') != std::string::npos;
  return {.source = text,
          .literal = true,
          .regex = Regex::literal(text),
          .line_ends = {.kind = has_newline ? LineEnds::Kind::unknown : LineEnds::Kind::passed}};
}

Pattern Pattern::one_of(std::span<const CharacterRange> set) {
  return {.source = "", .regex = Regex::one_of(set), .line_ends = {.kind = LineEnds::Kind::passed}};
}

Pattern Pattern::read(const JsonPart& part) {
  if (const auto text = part.find("String")) {
    if (text->text().empty()) text->fail("must not be empty");
    return of_text(text->text());
  }
  const JsonPart regex = part.at("Regex");
  const std::string source = regex.text();
  try {
    return of_regex(source);
  } catch (const Error& error) {
    regex.fail(error.what());
  }
}

Delimiters read_delimiters(const JsonPart& part) {
  constexpr std::array<std::string_view, 5> kByValue{"Removed", "Isolated", "MergedWithPrevious",
                                                     "MergedWithNext", "Contiguous"};
  const auto* const found = std::ranges::find(kByValue, part.text());
  if (found == kByValue.end()) part.fail(fmt::format("unknown behavior {}", part.text()));
  return static_cast<Delimiters>(found - kByValue.begin());
}

std::vector<std::string_view> split(std::string_view text, const Regex& pattern,
                                    Delimiters delimiters, Matches matches) {
  std::vector<std::string_view> words;
  bool before = false;
  std::size_t begin = 0;
  const std::vector<Stretch> stretches = stretches_of(text, pattern, matches);
  for (const auto& [range, delimiter] : stretches) {
    if (delimiters == Delimiters::removed && delimiter) continue;
    if (!words.empty() && join(delimiters, before, delimiter)) {
      words.back() = text.substr(begin, range.end - begin);
    } else {
      begin = range.begin;
      words.push_back(text.substr(range.begin, range.end - range.begin));
    }
    before = delimiter;
  }
  return words;
}

LastSplit last_split(std::string_view text, const Regex& pattern, Delimiters delimiters,
                     Matches matches) {
  const Regex::Known known = pattern.known_matches(text);
  LastSplit last{.begin = 0, .end = known.end};
  if (known.matches.empty()) return last;
  const ByteRange match = known.matches.back();
  if (delimiters == Delimiters::removed || delimiters == Delimiters::isolated)
    last.begin = match.end;
  else if (matches == Matches::are_kept)
    last.end = 0;
  else if (delimiters == Delimiters::merged_with_previous)
    last.begin = match.end;
  else if (delimiters == Delimiters::merged_with_next)
    last.begin = match.begin;
  else  // the delimiters that are next to each other are one
    for (std::size_t i = known.matches.size(); i-- > 0; last.begin = known.matches[i].begin)
      if (i + 1 < known.matches.size() && known.matches[i].end < known.matches[i + 1].begin) break;
  return last;
}

}  // namespace troupe::stages
