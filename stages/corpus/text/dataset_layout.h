#pragma once

#include <array>
#include <cstdint>

#include "stages/corpus/text/token_width.h"

// The head of a Megatron .idx, shared by its reader and its writer.

namespace troupe::stages {

inline constexpr std::array<char, 9> kIdxMagic = {'M', 'M', 'I', 'D', 'I', 'D', 'X', '\0', '\0'};
inline constexpr std::uint64_t kIdxVersion = 1;

/// Bytes of the head: magic, u64 version, u8 dtype code, u64 sequences, u64 document boundaries
/// (documents + 1). After the head: int32 lengths in tokens and int64 offsets into the .bin, one of
/// each per sequence; then the int64 boundaries, from 0 to the number of sequences. Nothing is
/// aligned: reads copy.
inline constexpr std::uint64_t kIdxHeadBytes = 9 + 8 + 1 + 8 + 8;

struct DatasetDType {
  std::uint8_t code;
  TokenWidth width;
};
/// Dtypes of the format that can hold ids.
inline constexpr std::array<DatasetDType, 3> kDatasetDTypes = {
    {{1, TokenWidth::u8}, {8, TokenWidth::u16}, {4, TokenWidth::i32}}};

}  // namespace troupe::stages
