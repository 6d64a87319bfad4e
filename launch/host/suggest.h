#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::launch {

/// The Levenshtein distance.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate with the smallest edit distance to `word`, the first of several equally close
/// ones. There must be at least one candidate.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

/// The names in quotes, separated by commas: "'a', 'b', 'c'".
std::string quoted_list(std::span<const std::string_view> names);

}  // namespace troupe::launch
