#pragma once

#include <filesystem>

namespace troupe::stages {

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

}  // namespace troupe::stages
