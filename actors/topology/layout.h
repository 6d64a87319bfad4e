#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace troupe::actors {

/// Which layers each chunk of the pipeline holds. A value. A schedule of two copies of the
/// parameters has two pipelines over the same stages: every layer lies in two chunks then.
struct Layout {
  struct Chunk {
    int first_layer = 0;
    int end_layer = 0;
    int stage = 0;  ///< pipeline rank that holds it
    bool operator==(const Chunk&) const = default;
  };
  int stages = 1;
  std::vector<Chunk> chunks;  ///< in model order, one copy after the other
  int copies() const;         ///< copies of the parameters
  /// Whether chunk i is the first, or last, of its copy: it holds the embedding, or the head.
  bool is_first(std::size_t i) const { return i % chunks_per_copy() == 0; }
  bool is_last(std::size_t i) const { return is_first(i + 1); }
  std::size_t chunks_per_copy() const {
    return chunks.empty() ? 0 : chunks.size() / static_cast<std::size_t>(copies());
  }
  bool operator==(const Layout&) const = default;
};

/// A layout with `layers[i]` layers, perhaps none, in chunk i of every copy. rank_of_chunk gives
/// the stage of each chunk; its length is a multiple of layers.size().
Layout layout_of(const std::vector<int>& layers, const std::vector<int>& rank_of_chunk);
/// Number of layers in each chunk of one copy.
std::vector<int> layers_of(const Layout& layout);

/// Consecutive chunks that hold equally many layers, each on the stage `stage_step` after that of
/// the chunk before. A layout of a thousand stages is a few such runs.
struct ChunkRun {
  Layout::Chunk first;
  int stage_step = 0;
  int chunks = 1;
  bool operator==(const ChunkRun&) const = default;
};
std::vector<ChunkRun> runs_of(const Layout& layout);
/// Inverse of runs_of(); none if the runs cannot have come from it.
std::optional<std::vector<Layout::Chunk>> chunks_of(const std::vector<ChunkRun>& runs);

}  // namespace troupe::actors
