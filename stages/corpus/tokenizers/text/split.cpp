#include "stages/corpus/tokenizers/text/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace troupe::stages {
namespace {

struct Part {
  ByteRange range;
  bool delimiter = false;
};

std::vector<Part> parts_of(std::string_view text, const Regex& pattern, Matches matches) {
  const bool delimiter = matches == Matches::are_delimiters;
  std::vector<Part> parts;
  std::size_t done = 0;
  const auto add = [&](std::size_t end, bool is_delimiter) {
    if (end > done) parts.push_back({{done, end}, is_delimiter});
    done = end;
  };
  for (const ByteRange match : pattern.matches(text)) {
    add(match.begin, !delimiter);
    add(match.end, delimiter);
  }
  add(text.size(), !delimiter);
  return parts;
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

Delimiters read_delimiters(const JsonPart& part) {
  constexpr std::array<std::pair<std::string_view, Delimiters>, 5> kNames{
      {{"Removed", Delimiters::removed},
       {"Isolated", Delimiters::isolated},
       {"MergedWithPrevious", Delimiters::merged_with_previous},
       {"MergedWithNext", Delimiters::merged_with_next},
       {"Contiguous", Delimiters::contiguous}}};
  const std::string name = part.text();
  const auto* found =
      std::ranges::find(kNames, name, &std::pair<std::string_view, Delimiters>::first);
  if (found == kNames.end()) part.fail(fmt::format("unknown behavior {}", name));
  return found->second;
}

std::vector<std::string_view> split(std::string_view text, const Regex& pattern,
                                    Delimiters delimiters, Matches matches) {
  std::vector<std::string_view> words;
  bool before = false;
  std::size_t begin = 0;
  const std::vector<Part> parts = parts_of(text, pattern, matches);
  for (const auto& [range, delimiter] : parts) {
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

}  // namespace troupe::stages
