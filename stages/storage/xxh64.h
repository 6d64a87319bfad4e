#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace troupe::stages {

/// XXH64 with seed 0, as the xxHash specification (version 0.1.1) defines it and `xxhsum -H64`
/// prints it: a checksum that runs at about memory speed. It finds damage, it does not stop
/// forgery.
class Xxh64 {
 public:
  void update(std::span<const std::byte> bytes);
  std::uint64_t digest() const;

 private:
  static constexpr std::size_t kStripe = 32;

  void consume(std::span<const std::byte> stripes);  ///< whole ones

  std::array<std::uint64_t, 4> lanes_{0x60ea27eeadc0b5d6, 0xc2b2ae3d27d4eb4f, 0,
                                      0x61c8864e7a143579};
  std::array<std::byte, kStripe> rest_{};  ///< the last total_ % kStripe bytes
  std::uint64_t total_ = 0;
};

std::uint64_t xxh64(std::span<const std::byte> bytes);
std::uint64_t xxh64(std::string_view text);
/// 16 lower-case hexadecimal digits.
std::string to_hex(std::uint64_t sum);

}  // namespace troupe::stages
