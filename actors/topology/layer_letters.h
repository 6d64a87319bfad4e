#pragma once

#include <string>
#include <vector>

namespace troupe::actors {

/// The layers of each chunk that Megatron-LM's letters say: "Et*3|(t|)*2,L" is {3, 1, 1, 0}.
/// Throws Error{usage} where they are against the grammar, or E and L are not once each, E first
/// and L last; what() goes on after the text.
std::vector<int> parse_letters(const std::string& text);

/// The letters that say this: {3, 1, 2} is "Et*3|t|t*2L".
std::string to_letters(const std::vector<int>& layers);

}  // namespace troupe::actors
