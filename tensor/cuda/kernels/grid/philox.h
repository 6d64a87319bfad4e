#pragma once

#include <cstdint>

#include "tensor/cuda/kernels/grid/grid.h"

namespace troupe::tensor::cuda {

/// The four words of a block of Philox 4x32 with 10 rounds (Salmon et al., SC'11): what
/// Random::word() gives for the indices 4 * counter to 4 * counter + 3.
__device__ __forceinline__ uint4 philox_block(std::uint64_t key, std::uint64_t counter) {
  unsigned c0 = static_cast<unsigned>(counter), c1 = static_cast<unsigned>(counter >> 32);
  unsigned c2 = 0, c3 = 0;
  unsigned key0 = static_cast<unsigned>(key), key1 = static_cast<unsigned>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const unsigned high0 = __umulhi(c0, 0xD2511F53u), low0 = c0 * 0xD2511F53u;
    const unsigned high1 = __umulhi(c2, 0xCD9E8D57u), low1 = c2 * 0xCD9E8D57u;
    c0 = high1 ^ c1 ^ key0;
    c1 = low1;
    c2 = high0 ^ c3 ^ key1;
    c3 = low0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return make_uint4(c0, c1, c2, c3);
}

/// Random::word(index).
__device__ __forceinline__ unsigned philox_word(std::uint64_t key, std::uint64_t index) {
  const uint4 block = philox_block(key, index / 4);
  switch (index % 4) {
    case 0:
      return block.x;
    case 1:
      return block.y;
    case 2:
      return block.z;
    default:
      return block.w;
  }
}

}  // namespace troupe::tensor::cuda
