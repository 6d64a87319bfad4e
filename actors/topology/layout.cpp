#include "actors/topology/layout.h"

#include <algorithm>
#include <cstdint>

#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

/// More chunks than any cluster has; runs with more are no valid layout.
constexpr std::size_t kMostChunks = 1 << 20;

/// The chunk that would follow the run's last one. No number in `run`, however large, overflows.
Layout::Chunk next_of(const ChunkRun& run) {
  const auto chunks = std::int64_t{run.chunks};
  const auto layers = std::int64_t{run.first.end_layer} - run.first.first_layer;
  const auto first = run.first.first_layer + chunks * layers;
  return {.first_layer = static_cast<int>(first),
          .end_layer = static_cast<int>(first + layers),
          .stage = static_cast<int>(run.first.stage + chunks * run.stage_step)};
}

}  // namespace

int Layout::copies() const {
  int count = 0, before = -1;  // within a copy, leading chunks without a layer end at 0
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
  const std::size_t chunks = layout.chunks_per_copy();
  for (std::size_t i = 0; i < chunks; ++i)
    layers.push_back(layout.chunks[i].end_layer - layout.chunks[i].first_layer);
  return layers;
}

std::vector<ChunkRun> runs_of(const Layout& layout) {
  std::vector<ChunkRun> runs;
  for (const Layout::Chunk& chunk : layout.chunks) {
    if (!runs.empty()) {
      ChunkRun& last = runs.back();
      if (last.chunks == 1) last.stage_step = chunk.stage - last.first.stage;
      if (next_of(last) == chunk) {
        ++last.chunks;
        continue;
      }
      if (last.chunks == 1) last.stage_step = 0;
    }
    runs.push_back({.first = chunk});
  }
  return runs;
}

std::optional<std::vector<Layout::Chunk>> chunks_of(const std::vector<ChunkRun>& runs) {
  std::vector<Layout::Chunk> chunks;
  for (ChunkRun run : runs) {
    const int wanted = run.chunks;
    if (wanted < 1 || chunks.size() + static_cast<std::size_t>(wanted) > kMostChunks)
      return std::nullopt;
    for (run.chunks = 0; run.chunks < wanted; ++run.chunks) chunks.push_back(next_of(run));
  }
  return chunks;
}

}  // namespace troupe::actors
