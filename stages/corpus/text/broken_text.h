#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::stages {

/// Counts what is no UTF-8 in a text file, of which the bytes are added in their order.
class BrokenText {
 public:
  void add(std::string_view bytes);
  /// A sentence about the file: how many parts count as U+FFFD, and where the first is, in bytes
  /// from 1. Empty if there is none.
  std::string sentence(const std::string& path) const;

 private:
  std::uint64_t read_ = 0;   ///< bytes so far
  std::uint64_t first_ = 0;  ///< the byte at which the first part begins, from 1
  std::int64_t parts_ = 0;
};

}  // namespace troupe::stages
