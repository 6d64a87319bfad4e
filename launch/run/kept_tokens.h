#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launch/manifest/toml/manifest.h"
#include "stages/storage/input_file.h"

namespace troupe::launch {

/// The folder in a run directory that names the open files of datasets, while the run lives.
inline constexpr const char* kOpenTokens = "tokens";

/// Keeps the token files of a run open while it lives, so that every worker maps the files that
/// were checked, also one that starts after their names were removed or given to other files.
class KeptTokens {
 public:
  /// `links` is a directory that this makes if it needs it, and removes: a dataset of two files is
  /// named by links there.
  explicit KeptTokens(std::filesystem::path links);
  KeptTokens(const KeptTokens&) = delete;
  ~KeptTokens();

  /// The manifest for workers: it names the open files. A file that cannot be kept, because there
  /// is no descriptor left for it, no /proc or no symbolic link, keeps its name.
  Manifest keep(Manifest manifest);

  /// The directory of the links is another run's now: nothing is removed there.
  void leave() { links_.clear(); }

 private:
  std::string keep(const std::string& path);
  std::filesystem::path open(const std::string& path);

  std::filesystem::path links_;
  std::vector<stages::InputFile> files_;
};

}  // namespace troupe::launch
