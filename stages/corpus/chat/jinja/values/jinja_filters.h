#pragma once

#include <string>

#include "stages/corpus/chat/jinja/values/jinja_arguments.h"
#include "stages/corpus/chat/jinja/values/jinja_value.h"

namespace troupe::stages {

/// value | name(...). stages/corpus/README.md lists the filters; another one is Error{data} with
/// the line.
JinjaValue filtered(const JinjaValue& value, const std::string& name, JinjaArguments& arguments);

/// value is name(...), alike.
bool passes_test(const JinjaValue& value, const std::string& name, JinjaArguments& arguments);

}  // namespace troupe::stages
