#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

namespace troupe::test {

/// A uniform number in 0 ... limit-1; limit > 0.
inline std::size_t below(std::mt19937_64& random, std::size_t limit) {
  return static_cast<std::size_t>(random() % limit);
}

/// Overwrites up to 8 bytes with a number that readers of lengths and offsets tend to get wrong.
inline void overwrite_number(std::string& bytes, std::mt19937_64& random) {
  constexpr std::array<std::uint64_t, 10> kNumbers = {
      0, 1, 7, 0x7f, 0xff, 0x7fffffff, 0xffffffff, 0x7fffffffffffffff, 0x8000000000000000, ~0ull};
  const std::uint64_t number = kNumbers[below(random, kNumbers.size())] + below(random, 3);
  const std::size_t at = below(random, bytes.size());
  std::memcpy(bytes.data() + at, &number, std::min<std::size_t>(8, bytes.size() - at));
}

/// Makes one random change: a bit, a byte, a number, a cut, a repeated or a removed range.
inline void mutate_once(std::string& bytes, std::mt19937_64& random) {
  if (bytes.empty()) {
    bytes.push_back(static_cast<char>(random()));
    return;
  }
  const std::size_t at = below(random, bytes.size());
  const std::size_t length = 1 + below(random, std::min<std::size_t>(64, bytes.size() - at));
  switch (below(random, 7)) {
    case 0:
      bytes[at] ^= static_cast<char>(1 << below(random, 8));
      break;
    case 1:
      bytes[at] = static_cast<char>(random());
      break;
    case 2:
      bytes[at] = "{}[]\",:0-e \\"[below(random, 12)];
      break;
    case 3:
      overwrite_number(bytes, random);
      break;
    case 4:
      bytes.resize(at);
      break;
    case 5:
      bytes.insert(at, bytes.substr(below(random, bytes.size()), length));
      break;
    case 6:
      bytes.erase(at, length);
      break;
  }
}

/// The bytes with one to four random changes.
inline std::string mutated(std::string bytes, std::mt19937_64& random) {
  for (std::size_t i = 0, changes = 1 + below(random, 4); i < changes; ++i)
    mutate_once(bytes, random);
  return bytes;
}

}  // namespace troupe::test
