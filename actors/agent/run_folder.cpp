#include "actors/agent/run_folder.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "stages/storage/xxh64.h"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::hours kMonth{24 * 30};

void remove_old(const fs::path& runs) {
  std::error_code ignored;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator run(runs, ignored), end; !ignored && run != end;
       run.increment(ignored)) {
    std::error_code code;
    fs::file_time_type newest = fs::last_write_time(run->path(), code);
    for (fs::directory_iterator log(run->path() / "logs", code), last; !code && log != last;
         log.increment(code))
      if (std::error_code gone; log->is_directory(gone))
        newest = std::max(newest, fs::last_write_time(log->path(), gone));
    if (now - newest > kMonth) fs::remove_all(run->path(), code);
  }
}

}  // namespace

fs::path run_folder(const fs::path& cache, const std::string& host, const std::string& launcher,
                    const std::string& run_dir) {
  remove_old(cache / "runs");
  const std::string name = (fs::path(run_dir) / "").parent_path().filename();
  const std::uint64_t id = stages::xxh64(host + " " + launcher + " " + run_dir);
  return cache / "runs" / (name + "-" + stages::to_hex(id));
}

void empty_run_folder(const fs::path& folder) {
  std::error_code ignored;
  for (const char* used : {"checkpoints", "fetched"}) fs::remove_all(folder / used, ignored);
}

}  // namespace troupe::actors
