#pragma once

// CUDA's names for code that g++ compiles as C++: a kernel becomes a function that each thread of
// an emulated grid (grid.h) calls. Included by tensor/cuda/kernels/grid/grid.h only.

#include <vector_functions.h>
#include <vector_types.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/emulated_grid/block.h"
#include "tests/emulated_grid/fault.h"
#include "tests/emulated_grid/grid.h"
#include "tests/emulated_grid/shared_array.h"

#undef __launch_bounds__
/// Leaves the bound before the kernel's own instructions, where thread_bound() reads it: as many
/// instructions that do nothing as a block has warps.
#define __launch_bounds__(threads, ...) \
  __attribute__((patchable_function_entry((threads) / ::troupe::emulated_grid::kWarp, 0)))

inline thread_local uint3 threadIdx{}, blockIdx{};
inline thread_local dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

#define SHARED(T, name, n)                             \
  const ::troupe::emulated_grid::SharedArray<T> name = \
      ::troupe::emulated_grid::shared_array<T>(#name, {__FILE__, __LINE__}, n)

namespace troupe::tensor::cuda {

template <typename T>
T* dynamic_shared() {
  return reinterpret_cast<T*>(emulated_grid::Block::current().dynamic_shared());
}

inline std::size_t shared_limit(cudaStream_t stream) {
  return emulated_grid::Grid::of(stream).shared_limit();
}

template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, std::size_t shared_bytes,
            cudaStream_t stream, const Arguments&... arguments) {
  auto& grid = emulated_grid::Grid::of(stream);
  const emulated_grid::LaunchSize size{
      blocks, threads, shared_bytes,
      emulated_grid::thread_bound(reinterpret_cast<const void*>(kernel))};
  grid.queue().run([&grid, size, kernel, ... values = static_cast<Parameters>(arguments)] {
    grid.run(size, [&] { kernel(values...); });
  });
}

}  // namespace troupe::tensor::cuda

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  troupe::emulated_grid::Block::current().barrier({file, line});
}

inline void __syncwarp(unsigned mask = 0xffffffff, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  troupe::emulated_grid::Block::current().sync_warp({"__syncwarp", mask, {file, line}});
}

namespace troupe::emulated_grid {

/// An operation in which every lane gives a value and takes one of the same type from a lane.
template <typename T>
T shuffle(const WarpOperation& operation, const T& value, int source) {
  struct Lane {
    T value;
    int source;
  } self{value, source};
  Block::current().warp(operation, &self, [&](void* const* lanes) {
    T values[kWarp];
    for (unsigned i = 0; i < kWarp; ++i) {
      if (lanes[i]) values[i] = static_cast<Lane*>(lanes[i])->value;
    }
    for (unsigned i = 0; i < kWarp; ++i) {
      auto* lane = static_cast<Lane*>(lanes[i]);
      if (!lane) continue;
      if (!lanes[lane->source]) {
        throw Fault(to_string(operation.place) + ": " + operation.name + " reads lane " +
                    std::to_string(lane->source) + ", which is not in its mask");
      }
      lane->value = values[lane->source];
    }
  });
  return self.value;
}

/// The mask of lanes whose predicate holds.
unsigned ballot(const WarpOperation& operation, bool predicate);

/// The running thread's lane.
inline int lane() {
  return static_cast<int>(Block::current().access().thread % kWarp);
}

/// `source` where it lies in the lane's segment of `width` lanes, the lane itself elsewhere.
inline int within(int source, int width) {
  const int segment = lane() / width * width;
  return source >= segment && source < segment + width ? source : lane();
}

}  // namespace troupe::emulated_grid

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  namespace grid = troupe::emulated_grid;
  const int first = grid::lane() / width * width;
  return grid::shuffle({"__shfl_sync", mask, {file, line}}, value, first + (source & (width - 1)));
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  namespace grid = troupe::emulated_grid;
  const int source = grid::within(grid::lane() - static_cast<int>(delta), width);
  return grid::shuffle({"__shfl_up_sync", mask, {file, line}}, value, source);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  namespace grid = troupe::emulated_grid;
  const int source = grid::within(grid::lane() + static_cast<int>(delta), width);
  return grid::shuffle({"__shfl_down_sync", mask, {file, line}}, value, source);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32,
                  const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  namespace grid = troupe::emulated_grid;
  const int source = grid::within(grid::lane() ^ lanes, width);
  return grid::shuffle({"__shfl_xor_sync", mask, {file, line}}, value, source);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(),
                              int line = __builtin_LINE()) {
  return troupe::emulated_grid::ballot({"__ballot_sync", mask, {file, line}}, predicate != 0);
}
inline int __any_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  return troupe::emulated_grid::ballot({"__any_sync", mask, {file, line}}, predicate != 0) != 0;
}
inline int __all_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  return troupe::emulated_grid::ballot({"__all_sync", mask, {file, line}}, predicate != 0) == mask;
}

// Functions of one thread.
[[noreturn]] inline void __trap() {
  throw troupe::emulated_grid::Fault("a kernel stopped by __trap()");
}
using std::max;
using std::min;
inline float rsqrtf(float x) {
  return 1.0f / std::sqrt(x);
}
inline float __expf(float x) {
  return std::exp(x);
}
inline float __logf(float x) {
  return std::log(x);
}
inline float __fdividef(float x, float y) {
  return x / y;
}
inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>(std::uint64_t{x} * y >> 32);
}
inline int __popc(unsigned x) {
  return std::popcount(x);
}
template <typename T>
T __ldg(const T* x) {
  return *x;
}
template <typename T>
T __ldcs(const T* x) {
  return *x;
}
template <typename T>
void __stcs(T* x, std::type_identity_t<T> value) {
  *x = value;
}
