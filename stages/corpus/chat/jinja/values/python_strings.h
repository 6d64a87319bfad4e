#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// What methods of Python's strings do.

namespace troupe::stages {

/// Python's white space: Unicode's, and the separators U+001C to U+001F.
bool is_python_space(char32_t character);

enum class Sides { before, behind, both };
/// strip(): without the white space, or the characters of `set`, at one side or both.
std::string stripped(std::string_view text, const std::string* set, Sides sides);

/// split() and rsplit() at a separator that is not empty, `most` times at most; all if it is
/// negative.
std::vector<std::string> split_at(std::string_view text, std::string_view separator,
                                  std::int64_t most, bool from_behind);
/// split() at white space.
std::vector<std::string> split_at_space(std::string_view text);
std::vector<std::string> lines_of(std::string_view text);

/// replace() of the first `most` places; of all if it is negative.
std::string replaced(std::string_view text, std::string_view old, std::string_view by,
                     std::int64_t most);
/// How often a part stands in a text, without overlap; one more than the characters if it is empty.
std::int64_t count_of(std::string_view text, std::string_view part);

enum class Case { upper, lower, capitalized, title };
/// upper(), lower(), capitalize(), title(), of characters of ASCII; others stay as they are.
std::string in_case(std::string_view text, Case how);

}  // namespace troupe::stages
