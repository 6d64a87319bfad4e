#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace troupe::stages {

/// A regular file open for reading. Move-only; const calls may run in any thread. Every failure is
/// an Error{data} with the path and the system's reason, or Error{unavailable} if the machine has
/// no descriptor left.
class InputFile {
 public:
  /// Opens a file; refuses anything but a regular file.
  static InputFile open(const std::filesystem::path& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::filesystem::path& path() const { return path_; }
  /// Bytes of the file when it was opened.
  std::uint64_t size() const { return size_; }
  int descriptor() const { return fd_; }
  /// Fills `out` from byte `offset`; a file that ends before is an error.
  void read(std::uint64_t offset, std::span<std::byte> out) const;
  /// Refuses a file that has become shorter than size().
  void refuse_if_cut() const;

 private:
  InputFile(std::filesystem::path path, int fd, std::uint64_t size);

  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

/// Whether anything is at the path. A path that cannot be examined counts as missing. Throws
/// nothing.
bool file_exists(const std::filesystem::path& path);

/// Why nothing can be read at a path: `missing` if nothing is there, else "cannot be read" with the
/// system's reason, as for a folder that this user may not enter. Throws Error{unavailable} if the
/// machine has no descriptor left.
std::string why_unreadable(const std::filesystem::path& path, const std::string& missing);

/// Reads a whole file. More than `limit` bytes are an Error{data}, which is thrown before any
/// memory is taken.
std::string read_whole_file(const std::filesystem::path& path, std::uint64_t limit);

}  // namespace troupe::stages
