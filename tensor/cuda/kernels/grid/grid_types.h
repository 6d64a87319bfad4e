#pragma once

#include <cstddef>

namespace troupe::tensor::cuda {

// Shared memory of a block in bytes, its static arrays included.

/// What it gets without asking for it.
inline constexpr std::size_t kSharedUnasked = 48 * 1024;
/// What a GPU gives a block at most, by its compute capability (CUDA C++ Programming Guide,
/// "Technical Specifications per Compute Capability"): 8.6, 8.9 and 12.x; 8.0 and 8.7; 9.0
/// and 10.x.
inline constexpr std::size_t kSharedOf86 = 99 * 1024, kSharedOf80 = 163 * 1024,
                             kSharedOf90 = 227 * 1024;
/// Static arrays that a kernel with dynamic shared memory may have. The emulated grid refuses more.
inline constexpr std::size_t kMostStaticBesideDynamic = 1024;
/// Dynamic shared memory for which a launch need not ask.
inline constexpr std::size_t kDynamicUnasked = kSharedUnasked - kMostStaticBesideDynamic;

}  // namespace troupe::tensor::cuda

/// CUDA's name for a stream, so that headers of launch functions need no header of the toolkit.
using cudaStream_t = struct CUstream_st*;
