#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace troupe::stages {

/// Parses a line of JSON, whose objects keep the order of their members, and in which every invalid
/// part of UTF-8 counts as one U+FFFD. It takes what Python writes beyond JSON: a lone surrogate
/// counts as U+FFFD, and NaN, Infinity and numbers beyond a double as 0. Throws Error{data} with
/// the parser's reason and the column, counted in bytes from 1, of a line that is no JSON.
nlohmann::ordered_json parse_json_line(std::string_view line);

/// Whether a text is JSON that parse_json_line() reads; of one that is cut off, whether nothing
/// before its end is wrong.
bool is_json(std::string_view text, bool is_cut);
/// Whether a text is that, whatever comes behind the first value.
bool begins_with_json(std::string_view text, bool is_cut);

}  // namespace troupe::stages
