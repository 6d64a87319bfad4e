#include "actors/files/file_looks.h"

#include <chrono>
#include <filesystem>
#include <thread>

namespace troupe::actors {
namespace {

/// Fine enough to tell whether a file system shows files late (launch/hosts/run_files.h).
constexpr std::chrono::milliseconds kLookFor{10};

std::int64_t bytes_at(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  return error ? -1 : static_cast<std::int64_t>(bytes);
}

}  // namespace

FilesSeen look_for_files(const FilesWanted& wanted, const std::stop_token& stop) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  const std::size_t count = wanted.paths.size();
  FilesSeen seen{.bytes = std::vector<std::int64_t>(count, -1),
                 .late_s = std::vector<double>(count, 0)};
  for (std::vector<bool> settled(count);;) {
    bool all = true;
    for (std::size_t i = 0; i < count; ++i) {
      if (settled[i]) continue;
      seen.bytes[i] = bytes_at(wanted.paths[i]);
      seen.late_s[i] = passed();
      settled[i] = i >= wanted.bytes.size() || seen.bytes[i] == wanted.bytes[i];
      all = all && settled[i];
    }
    if (all || stop.stop_requested() || passed() > wanted.patience_s) return seen;
    std::this_thread::sleep_for(kLookFor);
  }
}

}  // namespace troupe::actors
