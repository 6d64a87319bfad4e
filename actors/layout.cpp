#include "actors/layout.h"

#include <algorithm>

#include "tensor/error.h"

namespace troupe::actors {

Layout even_layout(int layers, const std::vector<int>& rank_of_chunk) {
  const int num_chunks = static_cast<int>(rank_of_chunk.size());
  TROUPE_ASSERT(num_chunks > 0 && num_chunks <= layers);
  Layout layout{.stages = 0, .chunks = {}};
  int next = 0;
  for (int chunk = 0; chunk < num_chunks; ++chunk) {
    const int size = layers / num_chunks + (chunk < layers % num_chunks ? 1 : 0);
    const int stage = rank_of_chunk[static_cast<std::size_t>(chunk)];
    layout.chunks.push_back({.first_layer = next, .end_layer = next + size, .stage = stage});
    layout.stages = std::max(layout.stages, stage + 1);
    next += size;
  }
  return layout;
}

}  // namespace troupe::actors
