#pragma once

#include <cstdint>

#include "tensor/cuda/kernels/grid/grid.h"

// Products of small bfloat16 matrices by the tensor cores, in registers spread over a warp (PTX
// ISA, "Matrix multiply-accumulate operation using mma instruction", shape m16n8k16). For lane L,
// with g = L / 4 and t = L % 4, and with two bfloat16 numbers in a 32-bit register, the lower half
// first:
//
//   A[16,16]  a[0], a[1]: A[g, 2t] and A[g, 2t + 1], then the same of row g + 8;
//             a[2], a[3]: the same 8 columns on
//   B[16,8]   b[0]: B[2t, g] and B[2t + 1, g]; b[1]: the same 8 rows on
//   C[16,8]   c[0], c[1]: C[g, 2t] and C[g, 2t + 1], float32; c[2], c[3]: the same of row g + 8
//
// On the emulated grid the lanes meet, and one of them does the work of all.

namespace troupe::tensor::cuda {

/// The tiles that one call of mma_tile() multiplies at most; more would need registers for all
/// their B at once.
inline constexpr int kMostTiles = 8;

#ifdef __CUDACC__

/// Reads n times four 8x8 matrices of bfloat16. Lane L gives at[i], the address of row L % 8 of
/// matrix L / 8 of the i-th four: shared memory, 16-byte aligned. m[i][j] becomes the elements
/// [g, 2t] and [g, 2t + 1] of matrix j, or [2t, g] and [2t + 1, g] if transposed.
template <bool transposed, int n>
__device__ __forceinline__ void load_matrices(const __nv_bfloat16* const (&at)[n],
                                              std::uint32_t (&m)[n][4]) {
#pragma unroll
  for (int i = 0; i < n; ++i) {
    const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(at[i]));
    if constexpr (transposed) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(m[i][0]), "=r"(m[i][1]), "=r"(m[i][2]), "=r"(m[i][3])
                   : "r"(address)
                   : "memory");
    } else {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(m[i][0]), "=r"(m[i][1]), "=r"(m[i][2]), "=r"(m[i][3])
                   : "r"(address)
                   : "memory");
    }
  }
}

/// c[i] += A x B[i] for n tiles with one A, at most kMostTiles. All lanes of a warp call it
/// together.
template <int n>
__device__ __forceinline__ void mma_tile(const std::uint32_t (&a)[4],
                                         const std::uint32_t (&b)[n][2], float (*c)[4]) {
  static_assert(n <= kMostTiles);
#pragma unroll
  for (int i = 0; i < n; ++i) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[i][0]), "r"(b[i][1]));
  }
}

#else

namespace mma {

inline float lower(std::uint32_t pair) {
  return __uint_as_float(pair << 16);
}
inline float upper(std::uint32_t pair) {
  return __uint_as_float(pair & 0xffff0000u);
}

struct Lane {
  const std::uint32_t* a;
  const std::uint32_t (*b)[2];
  float (*c)[4];
};

/// Tile i for all lanes, from their registers.
inline void multiply(void* const* lanes, int i) {
  const auto lane = [&](int l) { return static_cast<const Lane*>(lanes[l]); };
  float a[16][16], b[16][8], c[16][8] = {};
  for (int l = 0; l < 32; ++l) {
    const int g = l / 4, t = l % 4;
    for (int j = 0; j < 4; ++j) {
      float* row = a[g + j % 2 * 8] + 2 * t + j / 2 * 8;
      row[0] = lower(lane(l)->a[j]);
      row[1] = upper(lane(l)->a[j]);
    }
    for (int j = 0; j < 2; ++j) {
      b[2 * t + j * 8][g] = lower(lane(l)->b[i][j]);
      b[2 * t + j * 8 + 1][g] = upper(lane(l)->b[i][j]);
    }
  }
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) c[row][column] += a[row][k] * b[k][column];
    }
  }
  for (int l = 0; l < 32; ++l) {
    for (int j = 0; j < 4; ++j) lane(l)->c[i][j] += c[l / 4 + j / 2 * 8][l % 4 * 2 + j % 2];
  }
}

}  // namespace mma

template <bool transposed, int n>
void load_matrices(const __nv_bfloat16* const (&at)[n], std::uint32_t (&m)[n][4],
                   const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  struct Lane {
    const __nv_bfloat16* const* at;
    std::uint32_t (*m)[4];
  } self{at, m};
  const emulated_grid::Place place{file, line};
  for (const __nv_bfloat16* row : at) {
    if (reinterpret_cast<std::uintptr_t>(row) % 16 == 0) continue;
    throw emulated_grid::Fault(to_string(place) + ": a row of a matrix is not 16-byte aligned");
  }
  const auto element = [](const __nv_bfloat16* x) {
    return std::uint32_t{__bfloat16_as_ushort(*x)};
  };
  const auto load = [&](void* const* lanes) {
    for (int i = 0; i < 32 * 4 * n; ++i) {
      const int lane = i / (4 * n), matrix = i % 4, four = i / 4 % n;
      const int g = lane / 4, t = lane % 4;
      const auto row = [&](int r) { return static_cast<Lane*>(lanes[matrix * 8 + r])->at[four]; };
      const auto* first = transposed ? row(2 * t) + g : row(g) + 2 * t;
      const auto* second = transposed ? row(2 * t + 1) + g : first + 1;
      static_cast<Lane*>(lanes[lane])->m[four][matrix] = element(first) | element(second) << 16;
    }
  };
  emulated_grid::Block::current().warp({"load_matrices", 0xffffffff, place}, &self, load);
}

template <int n>
void mma_tile(const std::uint32_t (&a)[4], const std::uint32_t (&b)[n][2], float (*c)[4],
              const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  static_assert(n <= kMostTiles);
  mma::Lane self{a, b, c};
  emulated_grid::Block::current().warp({"mma_tile", 0xffffffff, {file, line}}, &self,
                                       [](void* const* lanes) {
                                         for (int i = 0; i < n; ++i) mma::multiply(lanes, i);
                                       });
}

#endif

}  // namespace troupe::tensor::cuda
