#include "transport/ordered_sum.h"

#include <algorithm>
#include <array>

#include "tensor/error.h"

namespace troupe::transport {
namespace {

/// Elements that are added up at a time: they stay in the first-level cache, where the compiler's
/// vector code adds one part after the other.
constexpr std::size_t kBlock = 1024;

template <typename T>
void add_parts(std::span<const std::byte* const> parts, T* out, std::size_t elements) {
  std::array<T, kBlock> sum;
  for (std::size_t begin = 0; begin < elements; begin += kBlock) {
    const std::size_t count = std::min(kBlock, elements - begin);
    std::copy_n(reinterpret_cast<const T*>(parts[0]) + begin, count, sum.begin());
    for (const std::byte* part : parts.subspan(1)) {
      const T* values = reinterpret_cast<const T*>(part) + begin;
      for (std::size_t i = 0; i < count; ++i) sum[i] += values[i];
    }
    std::copy_n(sum.begin(), count, out + begin);
  }
}

}  // namespace

void ordered_sum(std::span<const std::byte* const> parts, std::byte* out, std::size_t elements,
                 tensor::DType dtype) {
  TROUPE_ASSERT(!parts.empty() && (dtype == tensor::DType::f32 || dtype == tensor::DType::f64));
  if (dtype == tensor::DType::f32) {
    add_parts(parts, reinterpret_cast<float*>(out), elements);
  } else {
    add_parts(parts, reinterpret_cast<double*>(out), elements);
  }
}

}  // namespace troupe::transport
