#pragma once

#include <string>
#include <string_view>

namespace troupe::stages {

/// The text of a string literal in a template, given what is between its quotes: Python's escapes
/// are replaced, except octal ones and \N{...}, which are not supported. Throws Error{data} with
/// the line.
std::string unescaped(std::string_view literal, int line);

}  // namespace troupe::stages
