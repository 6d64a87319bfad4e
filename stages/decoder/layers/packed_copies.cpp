#include "stages/decoder/layers/packed_copies.h"

#include <algorithm>

namespace troupe::stages {

using tensor::Tensor;

namespace {

/// The part of a matrix's copy that belongs to `weight`; empty if the matrix does not hold it.
Tensor part_of(const PackedCopy& matrix, const Tensor& weight) {
  const std::int64_t first = weight.as<float>() - matrix.master.as<float>();
  if (first < 0 || first + weight.num_elements() > matrix.master.num_elements()) return {};
  const std::size_t offset = static_cast<std::size_t>(first) * size_of(matrix.copy.dtype);
  return {matrix.copy.as<std::byte>() + offset, matrix.copy.dtype, weight.shape};
}

}  // namespace

std::vector<Tensor> copies_of(std::span<const Parameter> parameters,
                              std::span<const PackedCopy> matrices) {
  std::vector<Tensor> copies;
  if (!std::ranges::all_of(matrices, [](const PackedCopy& m) { return bool{m.copy}; }))
    return copies;
  copies.resize(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i)
    for (const PackedCopy& matrix : matrices)
      if (const Tensor part = part_of(matrix, parameters[i].weight)) copies[i] = part;
  return copies;
}

}  // namespace troupe::stages
