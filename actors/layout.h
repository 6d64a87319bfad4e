#pragma once

#include <string>
#include <vector>

namespace troupe::actors {

/// Which layers each chunk of the pipeline holds. A value.
struct Layout {
  struct Chunk {
    int first_layer = 0;
    int end_layer = 0;
    int stage = 0;  ///< pipeline rank that holds it
    bool operator==(const Chunk&) const = default;
  };
  int stages = 1;
  std::vector<Chunk> chunks;  ///< in model order
  bool operator==(const Layout&) const = default;
};

/// Layers split evenly over stages * chunks chunks in model order, earlier chunks one larger where
/// they do not divide; rank_of_chunk gives each chunk's stage. stages * chunks <= layers.
Layout even_layout(int layers, const std::vector<int>& rank_of_chunk);

}  // namespace troupe::actors
