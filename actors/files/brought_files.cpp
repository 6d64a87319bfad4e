#include "actors/files/brought_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "actors/files/listing.h"
#include "stages/corpus/text/indexed_dataset.h"
#include "stages/storage/input_file.h"
#include "stages/storage/output_file.h"
#include "stages/storage/xxh64.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kLookAgain{50};
constexpr const char* kFetched = "fetched";

bool is_listed(const std::vector<std::string>& paths, const std::string& path) {
  return std::ranges::find(paths, path) != paths.end();
}

/// Whether this host has a file with these bytes.
bool is_same(const fs::path& path, const ListedFile& file) try {
  std::error_code code;
  return fs::file_size(path, code) == file.bytes && !code && sum_of_file(path) == file.sum;
} catch (const Error&) {
  return false;
}

/// The name of a dataset in a cache, of which file_names() are made: what its files hold, and
/// nothing of where they lie.
std::string digest_of(const std::vector<ListedFile>& files) {
  stages::Xxh64 sum;
  for (const ListedFile& file : files) sum.update(std::as_bytes(std::span(&file.sum, 1)));
  return stages::to_hex(sum.digest());
}

/// The name of a file of the dataset in a cache, so that caches are pruned of it.
std::string name_in_cache(const std::string& digest, const ListedFile& file) {
  const std::string extension = fs::path(file.name).extension();
  return digest + ".tokens" + (extension == ".tokens" ? "" : extension);
}

/// The last name of a path, whether or not a slash follows.
std::string last_name(const std::string& path) {
  return (fs::path(path) / "").lexically_normal().parent_path().filename();
}

}  // namespace

BroughtFiles::BroughtFiles(BroughtPlaces places, std::chrono::milliseconds patience)
    : places_(std::move(places)), patience_(patience) {}

std::string BroughtFiles::bring(FileSource& source, const std::string& path,
                                const std::function<std::string()>& why_stop) try {
  if (const auto found = tokens_.find(path); found != tokens_.end()) return found->second;
  if (is_listed(away_.tokens, path)) return bring_tokens(source, path);
  if (is_listed(away_.folders, path) || (!away_.run_dir.empty() && is_within(path, away_.run_dir)))
    return bring_folder(source, path);
  wait_until_seen(source, path, why_stop);
  return path;
} catch (const Error& error) {
  throw Error(error.kind(), fmt::format("host {}: {}", places_.host, error.what()));
}

std::string BroughtFiles::bring_tokens(FileSource& source, const std::string& path) {
  const std::vector<ListedFile> files = source.list(path, true);
  const fs::path folder = fs::path(path).parent_path();
  const bool has_copy = std::ranges::all_of(
      files, [&](const ListedFile& file) { return is_same(folder / file.name, file); });
  return tokens_[path] = has_copy ? path : cached(source, path, files);
}

/// The dataset in the cache, fetched if it is not there.
std::string BroughtFiles::cached(FileSource& source, const std::string& path,
                                 const std::vector<ListedFile>& files) {
  const std::string digest = digest_of(files);
  fs::create_directories(places_.cache);
  for (const ListedFile& file : files) {
    const fs::path target = places_.cache / name_in_cache(digest, file);
    if (!is_same(target, file)) {
      stages::PublishedFile here(target);
      stages::Xxh64 sum;
      source.fetch(path, file, [&](const FileSource::Piece& piece) {
        sum.update(piece.bytes);
        here.file().write(piece.bytes);
      });
      if (sum.digest() != file.sum)
        throw Error(ErrorKind::data,
                    fmt::format("{} changed on the launcher's host while it was fetched", path));
      here.publish();
    }
    holds_.emplace_back(target);
    stages::mark_used(target);
  }
  stages::prune_token_cache(places_.cache);
  // A dataset of two files is known by its .bin.
  return places_.cache / name_in_cache(digest, files.front());
}

std::string BroughtFiles::bring_folder(FileSource& source, const std::string& path) {
  const std::vector<ListedFile> files = source.list(path, false);
  const fs::path fetched = places_.run / kFetched,
                 here = fetched / stages::to_hex(stages::xxh64(path)) / last_name(path);
  if (folder_ == path && listed_ == files && stages::file_exists(here)) return here;
  folder_.clear();
  std::error_code code;
  fs::remove_all(fetched, code);  // one before it makes room
  stages::PublishedDirectory folder(here);
  for (const ListedFile& file : files) {
    stages::OutputFile out = stages::OutputFile::create(folder.path() / file.name);
    source.fetch(path, file, [&](const FileSource::Piece& piece) { out.write(piece.bytes); });
    out.sync_and_close();
  }
  folder.publish();
  folder_ = path;
  listed_ = files;
  return here;
}

/// Blocks until this host sees what the launcher's has.
void BroughtFiles::wait_until_seen(FileSource& source, const std::string& path,
                                   const std::function<std::string()>& why_stop) const {
  const std::vector<ListedFile> files = source.list(path, false);
  std::error_code ignored;
  const bool is_folder =
      files.empty() || (last_name(path) != files.front().name && !stages::is_indexed_dataset(path));
  const fs::path folder = is_folder ? fs::path(path) : fs::path(path).parent_path();
  const auto deadline = std::chrono::steady_clock::now() + patience_;
  for (const ListedFile& file : files) {
    // A file is stale, too, while it is as small as it once was.
    while (fs::file_size(folder / file.name, ignored) != file.bytes) {
      if (const std::string why = why_stop ? why_stop() : ""; !why.empty())
        throw Error(ErrorKind::retry, why);
      if (std::chrono::steady_clock::now() > deadline)
        throw Error(ErrorKind::unavailable,
                    fmt::format("{} is not there as the launcher's host has it, with {} bytes, and "
                                "was waited for {} s: does this host still see the same file "
                                "system?",
                                (folder / file.name).string(), file.bytes,
                                std::chrono::ceil<std::chrono::seconds>(patience_).count()));
      std::this_thread::sleep_for(kLookAgain);
    }
  }
}

}  // namespace troupe::actors
