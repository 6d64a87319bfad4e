#pragma once

#include <string_view>

#include "stages/corpus/chat/jinja_tree.h"

namespace troupe::stages {

/// Parses a template: text, {{ expressions }}, and the statements if, for, set and generation.
/// Throws Error{data} with the line for what is no template, or for a statement or a form of
/// expression that is not supported.
JinjaBody parse_jinja(std::string_view source);

}  // namespace troupe::stages
