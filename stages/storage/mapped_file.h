#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "stages/storage/input_file.h"

namespace troupe::stages {

/// A regular file mapped for reading. The file must not shrink while it is mapped. Move-only; any
/// thread may read.
class MappedFile {
 public:
  /// Maps a file. Throws Error{data} with the path and the system's reason.
  static MappedFile open(const std::filesystem::path& path);
  /// Maps a file that is open, which may be closed then.
  static MappedFile map(const InputFile& file);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace troupe::stages
