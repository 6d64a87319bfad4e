#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>

namespace troupe::stages {

/// Limits of a token cache. A file that is held, or was used within `fresh`, stays in any case.
struct CacheLimits {
  std::chrono::hours age{24 * 30};               ///< since the last use
  std::uint64_t bytes = std::uint64_t{1} << 35;  ///< of all files; the longest unused go first
  std::chrono::hours fresh{1};
  std::chrono::hours abandoned{24};  ///< since the last write of a file that was never finished
};

/// Sets the file's access time to now, whatever options the file system is mounted with. A file
/// that cannot be marked stays as it is.
void mark_used(const std::filesystem::path& file);

/// Removes token files beyond the limits from the directory of a cache, finished or not. No other
/// file is touched, and a file that cannot be removed stays.
void prune_token_cache(const std::filesystem::path& dir, const CacheLimits& limits = {});

/// Keeps a token file from being pruned while it lives: by a lock of the kernel, which ends with
/// the process at the latest. A file that cannot be locked is not held.
class TokenCacheHold {
 public:
  explicit TokenCacheHold(const std::filesystem::path& file);
  TokenCacheHold(TokenCacheHold&& other) noexcept;
  TokenCacheHold& operator=(TokenCacheHold&&) = delete;
  ~TokenCacheHold();

 private:
  int fd_ = -1;
};

}  // namespace troupe::stages
