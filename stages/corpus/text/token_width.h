#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stages/storage/output_file.h"
#include "stages/storage/xxh64.h"

namespace troupe::stages {

/// How token ids lie in a file, little-endian. The value is the number of bytes of one id.
enum class TokenWidth : std::uint32_t { u8 = 1, u16 = 2, i32 = 4 };

constexpr std::size_t bytes_of(TokenWidth width) {
  return static_cast<std::size_t>(width);
}

/// out[i] = the i-th id at `from`, which needs no alignment.
void unpack_ids(const std::byte* from, TokenWidth width, std::span<std::int32_t> out);

/// Appends ids to a file.
class TokenWriter {
 public:
  /// `file` outlives the writer.
  TokenWriter(OutputFile& file, TokenWidth width) : file_(file), width_(width) {}
  /// Appends ids, each of which must fit the width.
  void append(std::span<const std::int32_t> ids);
  std::int64_t num_tokens() const { return num_tokens_; }
  /// XXH64 of what was appended, as the file has it.
  std::uint64_t sum() const { return sum_.digest(); }

 private:
  OutputFile& file_;
  TokenWidth width_;
  std::int64_t num_tokens_ = 0;
  std::vector<std::byte> packed_;
  Xxh64 sum_;
};

}  // namespace troupe::stages
