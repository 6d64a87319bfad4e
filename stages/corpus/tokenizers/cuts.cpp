#include "stages/corpus/tokenizers/cuts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::stages {
namespace {

/// Whether a text begins with a character that is no white space.
bool begins_visibly(std::string_view text) {
  return !text.empty() && !is_white_space(first_char(valid_utf8(text.substr(0, 4))));
}

bool ends_visibly(std::string_view text) {
  if (text.empty()) return false;
  const std::string end =
      valid_utf8(text.substr(text.size() - std::min<std::size_t>(4, text.size())));
  return !is_white_space(last_char(end));
}

}  // namespace

Cuts::Cuts(Rule rule, Condition condition, Finder elsewhere)
    : rule_(rule), condition_(std::move(condition)), elsewhere_(std::move(elsewhere)) {}

std::size_t Cuts::last_in(std::string_view text) const {
  const std::string_view complete = text.substr(0, text.size() - incomplete_tail(text));
  if (rule_ == anywhere) {
    const std::size_t newline = complete.rfind('\n');
    if (newline != std::string_view::npos) return newline + 1;
    return complete.empty() ? text.size() : complete.size();
  }
  const std::size_t cut = rule_ == nowhere ? 0 : last_newline_in(complete);
  return cut == 0 && elsewhere_ ? elsewhere_(complete) : cut;
}

std::size_t Cuts::last_newline_in(std::string_view text) const {
  for (std::size_t newline = text.rfind('\n'); newline != std::string_view::npos;
       newline = text.substr(0, newline).rfind('\n')) {
    const std::string_view rest = text.substr(newline + 1);
    if (begins_visibly(rest) && (rule_ == at_lines || ends_visibly(text.substr(0, newline))) &&
        (!condition_ || condition_(rest)))
      return newline + 1;
  }
  return 0;
}

}  // namespace troupe::stages
