#include "actors/files/served_files.h"

#include <algorithm>
#include <span>

#include "actors/files/listing.h"
#include "actors/messages/control_plane.h"
#include "stages/corpus/text/indexed_dataset.h"
#include "stages/storage/not_there.h"
#include "stages/storage/data_error.h"

namespace troupe::actors {
namespace {

/// Files that are kept open from block to block: those of some hosts that fetch at once.
constexpr std::size_t kMostOpen = 32;

bool is_zero(const std::string& bytes) {
  return std::ranges::all_of(bytes, [](char byte) { return byte == '\0'; });
}

/// The file of this name among those that files_at() finds at a path.
std::filesystem::path path_of(const std::filesystem::path& path, const std::string& name) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return path / name;
  for (const std::string& file : {path.string(), stages::bin_path(path), stages::idx_path(path)})
    if (std::filesystem::path(file).filename() == name) return file;
  throw stages::data_error("{} has no file {}", path.string(), name);
}

}  // namespace

std::filesystem::path ServedFiles::locate(const std::string& path) const {
  if (const auto found = locate_(path)) return *found;
  throw stages::data_error("{} is none of the run's files", path);
}

Listing ServedFiles::list(const ListingWanted& wanted) try {
  const auto [folder, files] = files_at(locate(wanted.path));
  Listing listing{.files = files, .error = ""};
  for (ListedFile& file : listing.files) {
    const std::string path = folder / file.name;
    open_.erase(path);  // another file may have the name now
    if (!wanted.sums) continue;
    auto& [of, sum] = sums_[path];
    if (of != file) {
      sum = sum_of_file(path);
      of = file;
    }
    file.sum = sum;
  }
  return listing;
} catch (const stages::NotThere& error) {
  return {.files = {}, .absent = true, .error = error.what()};
} catch (const std::exception& error) {
  return {.files = {}, .error = text_of(error)};
}

Block ServedFiles::read(const BlockWanted& wanted) try {
  if (!is_file_name(wanted.name) || wanted.size == 0 || wanted.size > kBlockBytes)
    throw stages::data_error("no block of a file: '{}', {} bytes", wanted.name, wanted.size);
  const std::filesystem::path path = path_of(locate(wanted.path), wanted.name);
  Block block{.offset = wanted.offset,
              .size = wanted.size,
              .bytes = std::string(wanted.size, '\0'),
              .error = ""};
  open(path).read(wanted.offset, std::as_writable_bytes(std::span(block.bytes)));
  if (is_zero(block.bytes)) block.bytes.clear();
  return block;
} catch (const std::exception& error) {
  return {.offset = wanted.offset, .size = wanted.size, .bytes = "", .error = text_of(error)};
}

const stages::InputFile& ServedFiles::open(const std::filesystem::path& path) {
  const auto found = open_.find(path);
  if (found != open_.end()) return found->second;
  if (open_.size() >= kMostOpen) open_.clear();
  return open_.emplace(path, stages::InputFile::open(path)).first->second;
}

}  // namespace troupe::actors
