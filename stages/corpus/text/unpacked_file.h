#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace troupe::stages {

/// The bytes of a file from begin to end, unpacked where its first bytes say that gzip, zstd or xz
/// has packed it. Memory is bounded, whatever the file claims.
class UnpackedFile {
 public:
  /// Throws Error{data} naming a file that cannot be read.
  explicit UnpackedFile(const std::string& path);
  UnpackedFile(const UnpackedFile&) = delete;
  ~UnpackedFile();

  /// Fills `out` with the next bytes, and returns how many there were: fewer only at the end.
  /// Throws Error{data} naming the file if it is broken or ends within what was packed.
  std::size_t read(std::span<char> out);

  class Source;  ///< reads as read() does, but may give less before the end

 private:
  std::unique_ptr<Source> source_;
};

/// What has packed a file with these first bytes, as "gzip"; empty if it is not packed, or by
/// another program.
std::string_view packed_by(std::string_view head);
/// How many bytes a file has that is unpacked.
std::uint64_t unpacked_size(const std::string& path);

}  // namespace troupe::stages
