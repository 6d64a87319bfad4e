#pragma once

#include <cstddef>

namespace troupe::transport {

/// Slots begin on cache lines, so that two messages never share one.
inline constexpr std::size_t kCacheLine = 64;

/// The bytes of the cache lines that so many bytes take.
constexpr std::size_t in_cache_lines(std::size_t bytes) {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

}  // namespace troupe::transport
