#pragma once

#include <cstddef>

namespace troupe::tensor {

/// Memory that a layer's calls work in, each piece on a 64-byte boundary: forwards in one,
/// gradients in another, so that a forward on one stream may run at the same time as a gradient on
/// another.
struct Scratch {
  void* forward = nullptr;
  void* backward = nullptr;
};

/// How long its pieces must be.
struct ScratchBytes {
  std::size_t forward = 0;
  std::size_t backward = 0;
};

}  // namespace troupe::tensor
