#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct XXH64_state_s;

namespace troupe::stages {

/// XXH64 with seed 0, as `xxhsum -H64` prints it: the checksum of checkpoints and token files. It
/// finds damage, it does not stop forgery. Computed by libxxhash.
class Xxh64 {
 public:
  Xxh64();
  ~Xxh64();
  void update(std::span<const std::byte> bytes);
  std::uint64_t digest() const;

 private:
  struct Free {
    void operator()(XXH64_state_s* state) const;
  };
  std::unique_ptr<XXH64_state_s, Free> state_;
};

std::uint64_t xxh64(std::span<const std::byte> bytes);
std::uint64_t xxh64(std::string_view text);
/// Writes a sum as 16 lower-case hexadecimal digits.
std::string to_hex(std::uint64_t sum);

}  // namespace troupe::stages
