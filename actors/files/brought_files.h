#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "actors/files/file_source.h"
#include "stages/corpus/tokens/token_cache_pruning.h"

namespace troupe::actors {

/// Where a host keeps what it is brought.
struct BroughtPlaces {
  std::string host;             ///< its name in messages
  std::filesystem::path cache;  ///< token files, which later runs find again
  std::filesystem::path run;    ///< the rest, which goes with the run
};

/// Files that the launcher's host has and this one may lack: token files come into the cache, by
/// their digest, and are not fetched again; checkpoints into the run's folder, where the newest
/// stays. What this host sees for itself is waited for, because a network file system shows a file
/// some time after it was written. Used by one thread, which may block.
class BroughtFiles {
 public:
  /// What this host sees late is waited for as long as `patience`.
  explicit BroughtFiles(BroughtPlaces places,
                        std::chrono::milliseconds patience = std::chrono::seconds(60));

  /// From now on these do not count as seen here.
  void leave_out(const FilesAway& away) { away_ = away; }
  /// Makes what `path` stands for on the launcher's host available, and returns its path here.
  /// `source` is used for this call alone. `why_stop` is asked while it waits. Throws Error that
  /// names this host, and leaves nothing unfinished.
  std::string bring(FileSource& source, const std::string& path,
                    const std::function<std::string()>& why_stop = {});

 private:
  std::string bring_tokens(FileSource& source, const std::string& path);
  std::string bring_folder(FileSource& source, const std::string& path);
  void wait_until_seen(FileSource& source, const std::string& path,
                       const std::function<std::string()>& why_stop) const;
  std::string cached(FileSource& source, const std::string& path,
                     const std::vector<ListedFile>& files);

  const BroughtPlaces places_;
  const std::chrono::milliseconds patience_;
  FilesAway away_;
  std::map<std::string, std::string> tokens_;  ///< brought: path here, by the launcher's
  std::vector<stages::TokenCacheHold> holds_;
  std::string folder_;              ///< the newest folder that was brought, by the launcher's path
  std::vector<ListedFile> listed_;  ///< what it held then
};

}  // namespace troupe::actors
