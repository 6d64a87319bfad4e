#include "actors/layout.h"

#include <algorithm>

#include "tensor/error.h"

namespace troupe::actors {

int Layout::copies() const {
  return static_cast<int>(std::ranges::count(chunks, 0, &Chunk::first_layer));
}

Layout layout_of(const std::vector<int>& layers, const std::vector<int>& rank_of_chunk) {
  TROUPE_ASSERT(!layers.empty() && rank_of_chunk.size() % layers.size() == 0);
  Layout layout{.stages = 0, .chunks = {}};
  for (const int stage : rank_of_chunk) {
    const std::size_t chunk = layout.chunks.size() % layers.size();
    const int first = chunk == 0 ? 0 : layout.chunks.back().end_layer;
    layout.chunks.push_back(
        {.first_layer = first, .end_layer = first + layers[chunk], .stage = stage});
    layout.stages = std::max(layout.stages, stage + 1);
  }
  return layout;
}

std::vector<int> layers_of(const Layout& layout) {
  std::vector<int> layers;
  for (const Layout::Chunk& chunk : layout.chunks) {
    if (chunk.first_layer == 0 && !layers.empty()) break;  // the next copy
    layers.push_back(chunk.end_layer - chunk.first_layer);
  }
  return layers;
}

}  // namespace troupe::actors
