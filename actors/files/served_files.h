#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "actors/messages/file_messages.h"
#include "stages/storage/input_file.h"

namespace troupe::actors {

/// Files of this host that others may read, block by block. Used by one thread, which waits for
/// disks.
class ServedFiles {
 public:
  /// The path on this host that another host's word for it means; none if it may not have it.
  using Locate = std::function<std::optional<std::filesystem::path>(const std::string& path)>;
  explicit ServedFiles(Locate locate) : locate_(std::move(locate)) {}

  /// The sum of a file is computed once as long as nobody writes into it.
  Listing list(const ListingWanted& wanted);
  /// A block that ends beyond the file is an error: it has become shorter than its listing said.
  Block read(const BlockWanted& wanted);
  /// Closes what it has open, as the files are to be removed.
  void close() { open_.clear(); }

 private:
  std::filesystem::path locate(const std::string& path) const;
  const stages::InputFile& open(const std::filesystem::path& path);

  const Locate locate_;
  std::map<std::string, std::pair<ListedFile, std::uint64_t>> sums_;  ///< by path
  std::map<std::string, stages::InputFile> open_;                     ///< by path
};

}  // namespace troupe::actors
