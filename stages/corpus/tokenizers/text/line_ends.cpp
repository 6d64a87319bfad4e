#include "stages/corpus/tokenizers/text/line_ends.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

namespace troupe::stages {
namespace {

using Item = Pcre2Pattern::Item;
using Alternative = std::vector<Item>;

constexpr std::string_view kWhiteSpace = "\\p{White_Space}";

bool takes_newline(const Item& item) {
  return item.kind == Item::Kind::character && !Regex::of_pcre2(item.source).matches("\n").empty();
}

/// Collects what may come next in a match that has taken a newline.
class AfterNewlines {
 public:
  /// False if that is not known.
  bool add(const Alternative& alternative) {
    const bool asserts = std::ranges::any_of(alternative, is_assertion);
    if (asserts && !looks_behind_white_space(alternative)) return false;
    for (std::size_t i = 0; i < alternative.size(); ++i) {
      if (alternative[i].kind == Item::Kind::group) return false;
      if (!takes_newline(alternative[i])) continue;
      takes_newlines_ = true;
      if (!add_next(alternative, i)) return false;
    }
    has_assertions_ |= asserts;
    ends_ |= !asserts && takes_newline_alone(alternative);
    return true;
  }

  bool has_assertions() const { return has_assertions_; }
  bool ends() const { return ends_; }
  bool takes_newlines() const { return takes_newlines_; }
  const std::set<std::string>& next() const { return next_; }

 private:
  static bool is_assertion(const Item& item) { return item.kind == Item::Kind::assertion; }

  /// White space with a look-ahead behind it begins no match before a lone newline; one that begins
  /// at the newline ends with it, whatever the look-ahead finds, if another alternative takes it.
  static bool looks_behind_white_space(const Alternative& alternative) {
    return std::ranges::all_of(alternative, [&](const Item& item) {
      return is_assertion(item) ? &item == &alternative.back() : item.source == kWhiteSpace;
    });
  }

  bool add_next(const Alternative& alternative, std::size_t i) {
    if (alternative[i].repeats) next_.insert(alternative[i].source);
    while (++i < alternative.size() && !is_assertion(alternative[i])) {
      if (alternative[i].kind != Item::Kind::character) return false;
      next_.insert(alternative[i].source);
      if (!alternative[i].optional) break;
    }
    return true;
  }

  static bool takes_newline_alone(const Alternative& alternative) {
    const auto needed = std::ranges::count(alternative, false, &Item::optional);
    return std::ranges::any_of(alternative, [&](const Item& item) {
      return takes_newline(item) && needed == (item.optional ? 0 : 1);
    });
  }

  std::set<std::string> next_;  ///< sets of characters
  bool has_assertions_ = false;
  bool ends_ = false;
  bool takes_newlines_ = false;
};

/// Possessive quantifiers may leave nothing to the parts behind them.
bool takes_newlines(const Regex& regex) {
  constexpr std::array<std::string_view, 4> kTexts{"\na", "\n1", "\n!", "\n\xe4\xb8\xad"};
  return std::ranges::all_of(kTexts, [&](std::string_view text) {
    const auto matches = regex.matches(text);
    return !matches.empty() && matches[0].begin == 0;
  });
}

}  // namespace

LineEnds line_ends_of(const Pcre2Pattern& pattern, const Regex& regex) {
  AfterNewlines after;
  for (const Alternative& alternative : pattern.alternatives)
    if (!after.add(alternative)) return {};
  const bool ends = after.ends() && takes_newlines(regex);
  if (after.has_assertions() && !ends) return {};
  LineEnds found{.kind = ends ? LineEnds::Kind::ended : LineEnds::Kind::passed,
                 .takes_newlines = after.takes_newlines()};
  if (!after.next().empty())
    found.but_before = Regex::of_pcre2(fmt::format("{}", fmt::join(after.next(), "|")));
  return found;
}

}  // namespace troupe::stages
