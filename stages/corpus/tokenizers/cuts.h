#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace troupe::stages {

/// Where a document may be cut so that the ids of its parts, one after the other, are those of the
/// whole.
class Cuts {
 public:
  enum Rule {
    anywhere,
    at_lines,          ///< behind a newline, before a character that is no white space
    at_lone_newlines,  ///< as at_lines, but the newline also follows such a character
    nowhere,
  };
  /// Whether a document may be cut at a newline that is in its place by the rule, by the text
  /// behind it, which is not empty.
  using Condition = std::function<bool(std::string_view rest)>;
  /// Bytes before the last cut of a text that goes on, and begins where a document begins or was
  /// cut; 0 if it finds none.
  using Finder = std::function<std::size_t(std::string_view text)>;

  Cuts(Rule rule) : rule_(rule) {}  // NOLINT(google-explicit-constructor): a rule is all of it
  /// A text that has no cut by the rule and the condition may have one that `elsewhere` finds.
  Cuts(Rule rule, Condition condition, Finder elsewhere);

  /// Bytes before the last cut of a text that goes on, and begins where a document begins or was
  /// cut; 0 if it has none.
  std::size_t last_in(std::string_view text) const;
  /// Whether no text has a cut.
  bool are_nowhere() const { return rule_ == nowhere && !elsewhere_; }

 private:
  std::size_t last_newline_in(std::string_view text) const;

  Rule rule_;
  Condition condition_ = nullptr;
  Finder elsewhere_ = nullptr;
};

}  // namespace troupe::stages
