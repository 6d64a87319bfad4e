#pragma once

#include <cstddef>

namespace troupe::tensor {

/// Memory that a layer's calls work in, in two pieces on 256-byte boundaries: one for forwards and
/// one for gradients, so that a forward on one stream may run at the same time as a gradient on
/// another.
struct Scratch {
  void* forward = nullptr;
  void* backward = nullptr;
};

/// Sizes of the two pieces of a Scratch.
struct ScratchBytes {
  std::size_t forward = 0;
  std::size_t backward = 0;
};

}  // namespace troupe::tensor
