#include "actors/layout.h"

#include <algorithm>

#include "tensor/error.h"

namespace troupe::actors {

int Layout::copies() const {
  return static_cast<int>(std::ranges::count(chunks, 0, &Chunk::first_layer));
}

Layout even_layout(int layers, const std::vector<int>& rank_of_chunk, int copies) {
  const int num_chunks = static_cast<int>(rank_of_chunk.size()) / copies;  // of one copy
  TROUPE_ASSERT(num_chunks > 0 && num_chunks <= layers);
  Layout layout{.stages = 0, .chunks = {}};
  for (const int stage : rank_of_chunk) {
    const int chunk = static_cast<int>(layout.chunks.size()) % num_chunks;
    const int first = chunk == 0 ? 0 : layout.chunks.back().end_layer;
    const int size = layers / num_chunks + (chunk < layers % num_chunks ? 1 : 0);
    layout.chunks.push_back({.first_layer = first, .end_layer = first + size, .stage = stage});
    layout.stages = std::max(layout.stages, stage + 1);
  }
  return layout;
}

}  // namespace troupe::actors
