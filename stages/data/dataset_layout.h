#pragma once

#include <array>
#include <cstdint>

#include "stages/data/token_width.h"

// The head of a Megatron .idx, shared by its reader and its writer.

namespace troupe::stages {

inline constexpr std::array<char, 9> kIdxMagic = {'M', 'M', 'I', 'D', 'I', 'D', 'X', '\0', '\0'};
inline constexpr std::uint64_t kIdxVersion = 1;

#pragma pack(push, 1)
/// After it: int32 lengths in tokens and int64 offsets into the .bin, one a sequence; then int64
/// document boundaries.
struct IdxHead {
  std::array<char, 9> magic = kIdxMagic;
  std::uint64_t version = kIdxVersion;
  std::uint8_t dtype_code = 0;
  std::uint64_t num_sequences = 0;
  std::uint64_t num_boundaries = 0;  ///< documents + 1: the first is 0, the last num_sequences
};
#pragma pack(pop)
inline constexpr std::uint64_t kIdxHeadBytes = sizeof(IdxHead);
static_assert(kIdxHeadBytes == 34);

struct DatasetDType {
  std::uint8_t code;
  TokenWidth width;
};
/// Of the format's dtypes, those that hold ids.
inline constexpr std::array<DatasetDType, 3> kDatasetDTypes = {
    {{1, TokenWidth::u8}, {8, TokenWidth::u16}, {4, TokenWidth::i32}}};

}  // namespace troupe::stages
