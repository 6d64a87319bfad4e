#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stages/corpus/chat/jinja/values/jinja_value.h"

namespace troupe::stages {

/// The arguments of a call, a filter or a test, which are taken in the order of its parameters.
/// What is wrong with them is Error{data} with the line of the template.
class JinjaArguments {
 public:
  /// @param of what takes them, in messages: "the filter trim"
  JinjaArguments(std::string of, int line) : of_(std::move(of)), line_(line) {}
  void add(JinjaValue value) { by_place_.push_back(std::move(value)); }
  void add(std::string name, JinjaValue value) {
    by_name_.emplace_back(std::move(name), std::move(value));
  }

  int line() const { return line_; }
  void clear() {
    by_place_.clear();
    by_name_.clear();
  }
  /// The next argument by its place, or else the one of this name; none if neither is given.
  std::optional<JinjaValue> take(std::string_view name);
  JinjaValue take(std::string_view name, JinjaValue otherwise);
  std::optional<JinjaValue> take_by_name(std::string_view name);
  JinjaValue take_needed(std::string_view name);
  std::string take_text(std::string_view name);
  std::int64_t take_integer(std::string_view name, std::int64_t otherwise);
  /// The arguments that are left by name.
  std::vector<std::pair<std::string, JinjaValue>> take_named() { return std::move(by_name_); }
  /// Throws if any is left.
  void expect_none() const;
  [[noreturn]] void fail(std::string_view why) const;

 private:
  std::string of_;
  int line_;
  std::vector<JinjaValue> by_place_;
  std::vector<std::pair<std::string, JinjaValue>> by_name_;
};

}  // namespace troupe::stages
