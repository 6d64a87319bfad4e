#pragma once

#include <string>

#include "stages/corpus/chat/jinja/values/jinja_arguments.h"
#include "stages/corpus/chat/jinja/values/jinja_value.h"

namespace troupe::stages {

/// target.name(...), a method of Python's strings or dicts (stages/corpus/README.md lists them).
/// Throws Error{data} with the line for another one.
JinjaValue call_method(const JinjaValue& target, const std::string& name,
                       JinjaArguments& arguments);

/// Whether Python's type of a value has a method of this name, which is no member then.
bool is_python_method(const JinjaValue& value, std::string_view name);

/// Refuses characters beyond ASCII where letters change, of which this knows those of ASCII alone.
void check_ascii(const std::string& text, const JinjaArguments& arguments);

}  // namespace troupe::stages
