#include "stages/corpus/tokens/token_cache_pruning.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

namespace troupe::stages {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".tokens";

/// Whether a file with this name was finished: of an indexed dataset of another host there are two.
bool is_finished(const std::string& name) {
  return name.ends_with(kSuffix) || name.ends_with(".tokens.bin") || name.ends_with(".tokens.idx");
}

struct Entry {
  fs::path path;
  std::uint64_t bytes = 0;
  std::chrono::seconds unused{0};     ///< time since the last use
  std::chrono::seconds unwritten{0};  ///< time since the last write
};

/// Files whose name begins with 16 digits and .tokens; the names of unfinished ones have a further
/// ending.
std::vector<Entry> files_of(const fs::path& dir, bool finished) {
  std::vector<Entry> files;
  const std::time_t now = std::time(nullptr);
  std::error_code ignored;
  for (fs::directory_iterator at(dir, ignored), end; !ignored && at != end; at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    if (name.find(kSuffix) != 16 || is_finished(name) != finished) continue;
    struct stat status {};
    if (::lstat(at->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    files.push_back({.path = at->path(),
                     .bytes = static_cast<std::uint64_t>(status.st_size),
                     .unused = std::chrono::seconds(now - status.st_atim.tv_sec),
                     .unwritten = std::chrono::seconds(now - status.st_mtim.tv_sec)});
  }
  return files;
}

/// Removes a file. False if a run holds it.
bool remove_unheld(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  std::error_code ignored;
  const bool removed = ::flock(fd, LOCK_EX | LOCK_NB) == 0 && fs::remove(path, ignored);
  ::close(fd);
  return removed;
}

}  // namespace

void mark_used(const fs::path& file) {
  const timespec times[] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW},
                            {.tv_sec = 0, .tv_nsec = UTIME_OMIT}};
  [[maybe_unused]] const int marked = ::utimensat(AT_FDCWD, file.c_str(), times, 0);
}

void prune_token_cache(const fs::path& dir, const CacheLimits& limits) {
  for (const Entry& file : files_of(dir, false))
    if (file.unwritten >= limits.abandoned) remove_unheld(file.path);
  std::vector<Entry> files = files_of(dir, true);
  std::ranges::sort(files, std::ranges::greater(), &Entry::unused);
  std::uint64_t bytes = 0;
  for (const Entry& file : files) bytes += file.bytes;
  for (const Entry& file : files) {
    if (file.unused < limits.fresh) return;  // no file that follows is older
    if (file.unused < limits.age && bytes <= limits.bytes) return;
    if (remove_unheld(file.path)) bytes -= file.bytes;
  }
}

TokenCacheHold::TokenCacheHold(const fs::path& file)
    : fd_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (fd_ >= 0) ::flock(fd_, LOCK_SH | LOCK_NB);
}

TokenCacheHold::TokenCacheHold(TokenCacheHold&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

TokenCacheHold::~TokenCacheHold() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace troupe::stages
