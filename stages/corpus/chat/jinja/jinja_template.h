#pragma once

#include <ctime>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "stages/corpus/chat/jinja/jinja_tree.h"
#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::stages {

/// What a template reads: the values of its variables, and those that it may not read, with the
/// reason. Any other variable is undefined.
struct JinjaVariables {
  std::map<std::string, JinjaValue> values;
  std::map<std::string, std::string> refused;
  std::tm now{};  ///< of strftime_now()
};

/// A text that a template made.
struct JinjaOutput {
  std::string text;
  std::vector<ByteRange> generated;  ///< what of the text lies in {% generation %} blocks
};

/// A parsed template. Const calls may run in any thread.
class JinjaTemplate {
 public:
  /// Throws Error{data} with the line, as parse_jinja does.
  explicit JinjaTemplate(std::string_view source);

  /// Whether a {% generation %} block says what an assistant generated.
  bool marks_generated() const { return marks_generated_; }
  /// The text that the template makes of variables. Throws Error{data} with the line for what the
  /// template itself refuses by raise_exception, for what is an error in Jinja, and for a value,
  /// operator, function, filter or test that is not supported here.
  JinjaOutput render(const JinjaVariables& variables) const;

 private:
  JinjaBody body_;
  bool marks_generated_;
};

}  // namespace troupe::stages
