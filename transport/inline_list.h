#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace troupe::transport {

/// A list of at most N values without heap memory, as headers and wait notes carry them.
template <typename T, std::size_t N>
class InlineList {
 public:
  static constexpr std::size_t kCapacity = N;

  /// Does nothing when full; the result says whether the value was taken.
  bool push_back(T value) {
    if (size_ == N) return false;
    values_[size_++] = value;
    return true;
  }
  std::span<const T> span() const { return {values_.data(), size_}; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool operator==(const InlineList& other) const {
    return std::ranges::equal(span(), other.span());
  }

 private:
  std::array<T, N> values_{};
  std::size_t size_ = 0;
};

}  // namespace troupe::transport
