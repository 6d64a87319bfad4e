#pragma once

#include <vector>

#include "stages/decoder/layers/layers.h"
#include "stages/decoder/parameters/parameter_layout.h"

namespace troupe::stages {

/// The packed matrices of one chunk, as forwards and evaluations read them, and as backwards do.
/// Both are one unless weights are gathered for each.
struct PackedChunk {
  struct Matrices {
    std::vector<PackedBlock> blocks;
    void* head = nullptr;
  };
  Matrices forward, backward;
};

/// Divides the arena among the chunks' packed matrices. If the replicas divide weights, those of a
/// bucket lie in a slot that it has in turn, as its whole weights do.
std::vector<PackedChunk> lay_out_packed(const StageSpec& spec, const ParameterLayout& layout,
                                        const Layers& layers, Arena& arena);

}  // namespace troupe::stages
