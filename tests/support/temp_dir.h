#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace troupe::test {

/// Writes a file in place of any earlier one. The earlier one is removed, not emptied: ext4 makes a
/// program that empties a file wait for the disk, which would slow down thousands of rounds of a
/// fuzz test.
inline const std::filesystem::path& write_file(const std::filesystem::path& path,
                                               const std::string& content) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A new empty directory, removed with everything in it at the end.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "troupe-test-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("cannot make " + name);
    path_ = name;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  /// Writes a file and returns its path as text.
  std::string write(const std::string& name, const std::string& content) const {
    return write_file(path_ / name, content).string();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace troupe::test
