#pragma once

#include <string>
#include <vector>

namespace troupe::actors {

/// Layers of each chunk, as a layout in Megatron-LM's letters says: "Et*3|(t|)*2,L" is {3, 1, 1,
/// 0}. Throws Error{usage} if the text breaks the grammar, or if E and L do not occur once each, E
/// first and L last; what() continues a sentence that begins with the text.
std::vector<int> parse_letters(const std::string& text);

/// The layout of these layers in letters: {3, 1, 2} is "Et*3|t|t*2L".
std::string to_letters(const std::vector<int>& layers);

}  // namespace troupe::actors
