#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "launch/manifest/toml/manifest.h"
#include "launch/run/run_directory.h"
#include "tensor/errors/error.h"

// What others than its launcher read of a run directory.

namespace troupe::launch {
namespace {

namespace fs = std::filesystem;

/// A file that cannot be opened tells nothing about the run: neither that it ended nor how.
[[noreturn]] void refuse_reader(const fs::path& file, int code) {
  throw Error(ErrorKind::data,
              fmt::format("{} may not be read by user {} ({}), so nothing can be told of the run; "
                          "ask as its owner",
                          file.string(), geteuid(), std::strerror(code)));
}

}  // namespace

bool holds_run(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path / kManifestFile, ignored);
}

void require_run(const fs::path& path) {
  std::error_code error;
  if (fs::is_regular_file(path / kManifestFile, error)) return;
  if (error == std::errc::permission_denied) refuse_reader(path / kManifestFile, error.value());
  throw Error(ErrorKind::data,
              fmt::format("{} is not a run directory: it has no {}", path.string(), kManifestFile));
}

void require_readable(const fs::path& path) {
  std::error_code ignored;
  const int wanted = R_OK | (fs::is_directory(path, ignored) ? X_OK : 0);
  if (eaccess(path.c_str(), wanted) != 0 && errno != ENOENT && errno != ENOTDIR)
    refuse_reader(path, errno);
}

bool has_launcher(const fs::path& path) {
  const int fd = open((path / kLockFile).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) return false;
  if (fd < 0) refuse_reader(path / kLockFile, errno);
  struct flock lock = whole_file();
  const int result = fcntl(fd, F_OFD_GETLK, &lock);
  close(fd);
  return result == 0 && lock.l_type != F_UNLCK;
}

std::optional<nlohmann::json> read_json(const fs::path& path) {
  errno = 0;
  std::ifstream file(path);
  if (!file && errno == EACCES) refuse_reader(path, errno);
  if (!file) return std::nullopt;
  nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  return json;
}

std::vector<nlohmann::json> read_json_lines(const fs::path& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    nlohmann::json line = nlohmann::json::parse(text, nullptr, false);
    if (line.is_object()) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace troupe::launch
