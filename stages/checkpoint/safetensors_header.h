#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::stages {

struct SafetensorsDType {
  std::string_view name;
  std::uint64_t bits;  ///< of one element
};

/// The format's dtypes in the order of the reference implementation. Its writer sorts tensors by
/// it, the last dtype first.
inline constexpr std::array<SafetensorsDType, 22> kSafetensorsDTypes = {{
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
}};

/// Key of a tensor's XXH64 in the metadata.
inline std::string sum_key(const std::string& tensor) {
  return "xxh64:" + tensor;
}

}  // namespace troupe::stages
