// Philox 4x32 with 10 rounds (Salmon et al., SC'11) on vectors: the same words as Random::word().
// Compiled once per target: include it after foreach_target.h.

#if defined(TROUPE_TENSOR_CPU_PHILOX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_TENSOR_CPU_PHILOX_INL_H
#undef TROUPE_TENSOR_CPU_PHILOX_INL_H
#else
#define TROUPE_TENSOR_CPU_PHILOX_INL_H
#endif

#include <algorithm>
#include <cstring>

#include "tensor/cpu/loops/simd-inl.h"
#include "tensor/values/random.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

using U64 = hn::ScalableTag<std::uint64_t>;

constexpr std::int64_t kWordsOfBlock = 4;

/// The 64-bit products of the lower halves of x's lanes.
HWY_INLINE hn::Vec<U64> multiply_lower(hn::Vec<U64> x, std::uint32_t factor) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(U64(), (hn::GetLane(x) & 0xffffffff) * factor);
#else
  const hn::Repartition<std::uint32_t, U64> halves;
  return hn::MulEven(hn::BitCast(halves, x), hn::Set(halves, factor));
#endif
}

/// A vector of Philox blocks. Word i of a block is the lower half of its lane of ci; what is in the
/// upper half has no effect.
struct PhiloxBlocks {
  hn::Vec<U64> c0, c1, c2, c3;

  HWY_INLINE void round(std::uint32_t key0, std::uint32_t key1) {
    const auto p0 = multiply_lower(c0, 0xD2511F53), p1 = multiply_lower(c2, 0xCD9E8D57);
    c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), hn::Set(U64(), key0));
    c1 = p1;
    c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), hn::Set(U64(), key1));
    c3 = p0;
  }
};

HWY_INLINE hn::Vec<U64> join_lower(hn::Vec<U64> lower, hn::Vec<U64> upper) {
  return hn::Or(hn::And(lower, hn::Set(U64(), 0xffffffff)), hn::ShiftLeft<32>(upper));
}

/// The blocks with these counters.
HWY_INLINE PhiloxBlocks blocks_at(std::uint64_t key, hn::Vec<U64> counter) {
  PhiloxBlocks x{counter, hn::ShiftRight<32>(counter), hn::Zero(U64()), hn::Zero(U64())};
  auto key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    x.round(key0, key1);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return x;
}

/// Writes the words of `blocks` blocks from counter `first` on, and of up to a vector of blocks
/// more.
HWY_INLINE void draw_blocks(std::uint64_t key, std::uint64_t first, std::int64_t blocks,
                            std::uint32_t* words) {
  const auto step = static_cast<std::int64_t>(hn::Lanes(U64()));
  for (std::int64_t b = 0; b < blocks; b += step) {
    const auto x = blocks_at(key, hn::Iota(U64(), first + static_cast<std::uint64_t>(b)));
    HWY_ALIGN std::uint64_t pairs[2 * hn::MaxLanes(U64())];
    hn::StoreInterleaved2(join_lower(x.c0, x.c1), join_lower(x.c2, x.c3), U64(), pairs);
    std::memcpy(words + kWordsOfBlock * b, pairs, sizeof pairs);
  }
}

/// x with zeros where the words say that an element is dropped.
HWY_INLINE Vector drop(const Dropout& dropout, hn::Vec<U32> words, Vector x) {
  const auto dropped = hn::Lt(words, hn::Set(U32(), dropout.threshold()));
  return hn::IfThenZeroElse(hn::RebindMask(F32(), dropped), x);
}

/// Calls body(i, n, words) for i = 0, lanes(), ... below `count`, n as in for_each_vector; lane l
/// of `words` is the word of index first + i + l.
template <typename Body>
HWY_INLINE void for_each_draw(std::uint64_t key, std::uint64_t first, std::int64_t count,
                              const Body& body) {
  constexpr std::int64_t kPiece = 512;  // words, a multiple of every vector's lanes
  constexpr std::int64_t kBeyond = kWordsOfBlock + kWordsOfBlock * hn::MaxLanes(U64());
  const auto skipped = static_cast<std::int64_t>(first % kWordsOfBlock);
  std::uint32_t words[kPiece + kBeyond];
  for (std::int64_t begin = 0; begin < count; begin += kPiece) {
    const std::int64_t piece = std::min(kPiece, count - begin);
    const std::uint64_t block = (first + static_cast<std::uint64_t>(begin)) / kWordsOfBlock;
    draw_blocks(key, block, (skipped + piece + kWordsOfBlock - 1) / kWordsOfBlock, words);
    for_each_vector(piece, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
      body(begin + i, n, hn::LoadU(U32(), words + skipped + i));
    });
  }
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
