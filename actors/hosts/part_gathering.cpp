#include "actors/hosts/part_gathering.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "actors/files/file_fetch.h"
#include "actors/files/merged_file.h"
#include "stages/storage/not_there.h"
#include "stages/storage/output_file.h"
#include "stages/storage/parallel_jobs.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

/// Hosts whose parts are fetched at once.
constexpr int kAtOnce = 8;

/// The files that parts are merged into, each by one thread at a time.
class Target {
 public:
  explicit Target(std::filesystem::path dir) : dir_(std::move(dir)) {}

  void add(FileSource& source, const ListedFile& file) {
    std::mutex& mutex = mutex_of(file.name);
    MergedFile whole = [&] {
      const std::lock_guard lock(mutex);
      return MergedFile(dir_ / file.name, file.bytes);
    }();
    source.fetch(dir_, file, [&](const FileSource::Piece& piece) {
      if (piece.is_zero) return;  // others may write there
      const std::lock_guard lock(mutex);
      whole.add(piece.offset, piece.bytes);
    });
    whole.sync_and_close();
  }

 private:
  std::mutex& mutex_of(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return files_[name];
  }

  const std::filesystem::path dir_;
  std::mutex mutex_;  // guards files_
  std::map<std::string, std::mutex> files_;
};

/// Whether ranks write a file of this name. A host has no business with others.
bool is_part(const ListedFile& file) {
  return file.name.ends_with(".safetensors") &&
         (file.name.starts_with("model-") || file.name.starts_with("optimizer-") ||
          file.name.starts_with("adapter-"));
}

std::vector<ListedFile> parts_of(FileSource& source, const std::filesystem::path& unfinished,
                                 const std::string& host) try {
  const std::vector<ListedFile> files = source.list(unfinished, false);
  for (const ListedFile& file : files)
    if (!is_part(file))
      throw Error(ErrorKind::internal,
                  fmt::format("host {}: {} is no part of a checkpoint", host, file.name));
  return files;
} catch (const stages::NotThere&) {
  return {};  // none of its ranks had anything to write
}

}  // namespace

void gather_parts(caf::actor_system& system, const std::filesystem::path& unfinished,
                  const std::vector<PartHolder>& holders,
                  const std::function<std::string(const std::string& host)>& why_stop) {
  for (const PartHolder& holder : holders)
    if (!holder.parts)
      throw Error(ErrorKind::unavailable,
                  fmt::format("host {} is gone, and its parts of {} with it", holder.host,
                              unfinished.stem().stem().string()));
  std::error_code code;
  std::filesystem::create_directories(unfinished, code);
  stages::refuse_if(code, fmt::format("checkpoint {}: cannot create", unfinished.string()));
  Target target(unfinished);
  stages::carry_out(kAtOnce, holders.size(), [&]() -> stages::Job {
    return [&](std::size_t i) {
      const std::string& host = holders[i].host;
      const FetchLimits limits{.why_stop = [&] { return why_stop(host); }};
      FileFetch source(system, holders[i].parts, "host " + host, limits);
      for (const ListedFile& file : parts_of(source, unfinished, host)) target.add(source, file);
    };
  });
  stages::sync_directory(unfinished);
}

}  // namespace troupe::actors
