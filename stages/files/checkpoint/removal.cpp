#include "stages/files/checkpoint/removal.h"

#include <fmt/format.h>

#include <system_error>
#include <vector>

#include "stages/storage/output_file.h"

namespace troupe::stages {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& dir) {
  std::error_code code;
  std::vector<fs::path> entries;
  for (fs::directory_iterator entry(dir, code), end; !code && entry != end; entry.increment(code))
    entries.push_back(entry->path());
  return entries;
}

}  // namespace

bool is_nfs_rename(const fs::path& path) {
  return path.filename().string().starts_with(".nfs");
}

void remove_tree(const fs::path& dir) {
  const auto refuse = [&](const std::error_code& code) {
    refuse_if(code, fmt::format("checkpoint {}: cannot remove", dir.string()));
  };
  bool is_nfs = false;
  for (const fs::path& entry : entries_of(dir)) {
    std::error_code code;
    fs::remove_all(entry, code);
    if (!is_nfs_rename(entry)) refuse(code);
  }
  for (const fs::path& left : entries_of(dir)) is_nfs = is_nfs || is_nfs_rename(left);
  std::error_code code;
  if (!is_nfs) fs::remove_all(dir, code);
  refuse(code);
}

}  // namespace troupe::stages
