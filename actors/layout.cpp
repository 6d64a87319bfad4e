#include "actors/layout.h"

#include <algorithm>

#include "tensor/error.h"

namespace troupe::actors {

int Layout::copies() const {
  int count = 0, before = -1;  // of a copy that goes on, first chunks without a layer end at 0
  for (const Chunk& chunk : chunks) {
    if (chunk.first_layer == 0 && before != 0) ++count;
    before = chunk.end_layer;
  }
  return count;
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
  for (std::size_t i = 0; layers.empty() || !layout.is_first(i); ++i)
    layers.push_back(layout.chunks[i].end_layer - layout.chunks[i].first_layer);
  return layers;
}

}  // namespace troupe::actors
