#pragma once

#include <cstdint>
#include <vector>

#include "actors/assembly.h"
#include "stages/transformer_stage.h"

namespace troupe::actors {

/// Bytes that one rank takes.
struct RankMemory {
  stages::StageMemory stage;
  std::int64_t pools = 0;  ///< of transport buffers
  std::int64_t total() const { return stage.total() + pools; }
};

/// By rank, before anything is allocated. The assembly is the shape's.
std::vector<RankMemory> memory_of(const RunSpec& spec, const Shape& shape,
                                  const Assembly& assembly);
/// Of all ranks together.
std::int64_t total_memory(const RunSpec& spec, const Shape& shape);

}  // namespace troupe::actors
