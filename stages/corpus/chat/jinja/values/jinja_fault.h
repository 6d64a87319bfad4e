#pragma once

#include <string_view>

namespace troupe::stages {

/// Throws Error{data}: what is wrong in a line of a template.
[[noreturn]] void fail_in_line(int line, std::string_view why);

}  // namespace troupe::stages
