#pragma once

#include <span>
#include <vector>

#include "stages/stage/stage.h"

namespace troupe::stages {

/// The master weight of a product, and its packed form as a copy of it that an optimizer may write
/// (Linear::packed_copy); the copy is empty if packing does more.
struct PackedCopy {
  tensor::Tensor master;  ///< maybe of several parameters, one after the other
  tensor::Tensor copy;
};

/// The copy of each parameter's weight within the packed matrices, empty for one that no product
/// uses. Empty as a whole if any of the matrices is no copy: then all must be packed anyway.
std::vector<tensor::Tensor> copies_of(std::span<const Parameter> parameters,
                                      std::span<const PackedCopy> matrices);

}  // namespace troupe::stages
