#pragma once

#include <string>
#include <vector>

#include "stages/model/model_config.h"

namespace troupe::actors {

/// How the layers are split over the chunks of one copy of the parameters, as mesh.layout and
/// --layout say it. Chunks are in model order; the first holds the embedding too, the last the
/// head. A rule gives each chunk at least one layer; by hand some may have none.
///
///   "" or even   equally many layers each, earlier chunks one more if there is a remainder
///   ends         like even, with embedding and head counting as one layer each
///   parameters   equally many parameters each, those of embedding and head included
///   3,2,1        the layers of each chunk
///   Et*3|tt|tL   layers of each chunk in Megatron-LM's letters: E the embedding, t a layer, L the
///   head, |
///                between chunks; x*n and (...)*n repeat, commas mean nothing
struct LayerSplit {
  enum class Rule { even, ends, parameters, by_hand };
  Rule rule = Rule::even;
  std::vector<int> layers;  ///< layers of each chunk, if split by hand
  bool letters = false;     ///< split by hand, in letters
};

/// Throws Error{usage} if the text is none of the above, or if its letters lose or double E or L;
/// what() continues a sentence that begins with the text: "has no L, ...; such as Et*3|t*3L".
LayerSplit parse_split(const std::string& text);

/// Layers of each of `chunks` chunks, by a rule at most as many as the model has layers. Throws
/// Error{usage} if layers given by hand do not add up, with what is missing or too much and the
/// nearest split that fits.
std::vector<int> split_layers(const LayerSplit& split, const stages::ModelConfig& model,
                              int chunks);

/// The split itself if it is a rule, which fits any number of chunks; even if it is by hand.
LayerSplit rule_of(const LayerSplit& split);

}  // namespace troupe::actors
