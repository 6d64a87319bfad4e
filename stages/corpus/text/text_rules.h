#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>

namespace troupe::stages {

/// What becomes of a line that is no document.
enum class BadLines { stop, skip };
/// Their names in a manifest, by value.
inline constexpr std::array<std::string_view, 2> kBadLinesNames{"stop", "skip"};

/// How texts are read and marked, beside what tells targets and samples apart.
struct TextRules {
  /// The names that lines of JSON have for members that records know (kRecordFields), by these.
  /// Empty: what a line holds is found by its members.
  std::map<std::string, std::string> fields{};
  BadLines on_bad_line = BadLines::stop;
  /// The day of chat templates that ask for one, as "2024-07-26"; empty: today.
  std::string date{};
  /// What a document begins and ends with: a token's name, kNoMark for none, or kAutoMark, what the
  /// tokenizer's own files put around a text.
  std::string bos{"auto"}, end_of_document{"auto"};
  bool operator==(const TextRules&) const = default;
};
inline constexpr std::string_view kAutoMark = "auto", kNoMark = "none";

}  // namespace troupe::stages
