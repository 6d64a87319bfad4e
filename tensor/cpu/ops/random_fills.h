#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/values/random.h"
#include "tensor/values/tensor.h"

// Random values for whole tensors in host memory: the very bits of Random's functions, many at a
// time. The number of threads does not change them.

namespace troupe::tensor {

/// x[i] = stddev * Random(seed, name).normal(i), x float32.
void fill_normal(const Tensor& x, std::uint64_t seed, std::string_view name, double stddev,
                 int threads);
/// Fills x[R,C] as the part `slice` of a global matrix: each value is the one that fill_normal
/// gives the whole matrix there.
void fill_normal(const Tensor& x, const MatrixSlice& slice, std::uint64_t seed,
                 std::string_view name, double stddev, int threads);

/// Fills x[R,C], float32, as the part `slice` of a global matrix with uniform numbers in [-bound,
/// bound]: bound * (2 u - 1), u = Random(seed, name).uniform(global index).
void fill_uniform(const Tensor& x, const MatrixSlice& slice, std::uint64_t seed,
                  std::string_view name, double bound, int threads);

}  // namespace troupe::tensor
