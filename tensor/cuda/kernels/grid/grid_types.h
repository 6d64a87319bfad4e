#pragma once

#include <cstddef>

namespace troupe::tensor::cuda {

/// Static shared memory that a kernel with dynamic shared memory may have, in bytes. The emulated
/// grid refuses more.
constexpr std::size_t kMostStaticBesideDynamic = 1024;

}  // namespace troupe::tensor::cuda

/// CUDA's name for a stream, so that headers of launch functions need no header of the toolkit.
using cudaStream_t = struct CUstream_st*;
