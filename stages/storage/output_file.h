#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "tensor/errors/error.h"

namespace troupe::stages {

/// The file system, or the user's quota on it, has no room left. Once there is room, writing the
/// same again may succeed.
class DiskFull : public Error {
 public:
  explicit DiskFull(const std::string& message) : Error(ErrorKind::internal, message) {}
};

/// A file being written. It is complete only after sync_and_close(). Every failure (I/O error,
/// missing directory) is an Error{internal} with the path and the system's reason; of a full disk a
/// DiskFull. No hard link, lock or change of a mode is needed, which some file systems lack.
class OutputFile {
 public:
  /// Creates the file, or empties an existing one.
  static OutputFile create(const std::filesystem::path& path);
  /// Creates a new file `<path>.<random digits>` with a name that no other process uses.
  static OutputFile create_beside(const std::filesystem::path& path);
  /// Opens a file to write parts of it; creates it if it is missing.
  static OutputFile open(const std::filesystem::path& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  const std::filesystem::path& path() const { return path_; }
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Writes at byte `offset`; write() goes on where it was. Several processes may write parts of a
  /// file that do not overlap at once.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Gives the file this many bytes; those that are new are zero.
  void resize(std::uint64_t size);
  /// Closes the file. Its content is on the disk when this returns.
  void sync_and_close();

 private:
  OutputFile(std::filesystem::path path, int fd);
  template <typename Put>
  void write_all(std::span<const std::byte> bytes, const Put& put);

  std::filesystem::path path_;
  int fd_ = -1;
};

/// A file that appears under its name only when complete: written beside it, synced, renamed over
/// whatever was there. Destroyed before publish(), it leaves nothing behind. Two writers of one
/// name do not disturb each other: the last to publish wins.
class PublishedFile {
 public:
  explicit PublishedFile(std::filesystem::path path);
  PublishedFile(const PublishedFile&) = delete;
  PublishedFile& operator=(const PublishedFile&) = delete;
  ~PublishedFile();

  OutputFile& file() { return file_; }
  void publish();

 private:
  std::filesystem::path path_;
  OutputFile file_;
  bool published_ = false;
};

/// A directory that appears under its name only when complete: written beside it and renamed.
/// Destroyed before publish(), it leaves nothing behind.
class PublishedDirectory {
 public:
  /// Creates a directory beside `path`, and those above it if they are missing. Throws Error{data}
  /// if there is anything at `path`, or with the system's reason if nothing can be made there.
  explicit PublishedDirectory(std::filesystem::path path);
  PublishedDirectory(const PublishedDirectory&) = delete;
  PublishedDirectory& operator=(const PublishedDirectory&) = delete;
  ~PublishedDirectory();

  /// Where to write until publish().
  const std::filesystem::path& path() const { return unfinished_; }
  /// Syncs the directory, whose files are synced already, and gives it its name.
  void publish();

 private:
  std::filesystem::path path_;
  std::filesystem::path unfinished_;
  bool published_ = false;
};

/// Throws Error{internal}, "<what>: " and the system's reason, if there is one.
void refuse_if(const std::error_code& code, const std::string& what);

/// Writes a small file and syncs it.
void write_whole_file(const std::filesystem::path& path, std::string_view content);
/// Makes creations and renames in the directory durable, if its file system can: some (CIFS, FUSE)
/// sync files alone.
void sync_directory(const std::filesystem::path& directory);

}  // namespace troupe::stages
