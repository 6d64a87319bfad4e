#include "actors/agent/dead_worker.h"

#include <sys/ipc.h>
#include <sys/shm.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <limits>

namespace troupe::actors {
namespace {

constexpr std::int64_t kMaxRead = 1 << 16;
constexpr std::size_t kMaxWords = 300;
/// Length of what a log line begins with, "2026-01-31 12:34:56.789 +01:00 ".
constexpr std::size_t kTime = 31;

bool is_log_line(const std::string& line) {
  return line.size() > kTime && line[4] == '-' && line[7] == '-' && line[10] == ' ' &&
         line[13] == ':' && line[23] == ' ' && line[kTime - 1] == ' ' && std::isdigit(line[0]) != 0;
}

/// What a line says of a failure; empty if it is none.
std::string failure_in(std::string line) {
  if (is_log_line(line)) {
    line.erase(0, kTime);
    const auto level = line.find(' ');
    const std::string name = line.substr(0, level);
    if (level == std::string::npos || (name != "error" && name != "critical")) return "";
    line.erase(0, level + 1);
  }
  constexpr std::string_view kOwnName = "troupe: ";
  if (line.starts_with(kOwnName)) line.erase(0, kOwnName.size());
  line.erase(0, std::min(line.find_first_not_of(' '), line.size()));
  return line;
}

bool has_letter(const std::string& line) {
  return std::ranges::any_of(line, [](unsigned char c) { return std::isalpha(c) != 0; });
}

/// Tells lines of a backtrace as UCX prints it, between rules of '=' below the line that has the
/// cause. The lines are to be given in their order.
class Backtraces {
 public:
  bool contain(const std::string& line) {
    if (line.starts_with("==== backtrace"))
      inside_ = true;
    else if (is_log_line(line) || !has_letter(line))
      inside_ = false;
    return inside_;
  }

 private:
  bool inside_ = false;
};

}  // namespace

std::string last_words(const std::string& path, std::int64_t begin) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  file.seekg(std::max(begin, static_cast<std::int64_t>(file.tellg()) - kMaxRead));
  std::string words;
  Backtraces backtraces;
  for (std::string line; std::getline(file, line);) {
    if (backtraces.contain(line)) continue;
    if (const std::string said = failure_in(line); has_letter(said)) words = said;
  }
  return words.substr(0, kMaxWords);
}

void remove_left_segments(pid_t dead, std::time_t since) {
  std::ifstream segments("/proc/sysvipc/shm");
  segments.ignore(std::numeric_limits<std::streamsize>::max(), '\n');  // the line of column titles
  int id = 0;
  for (std::string key; segments >> key >> id;) {
    segments.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    shmid_ds status{};
    if (::shmctl(id, IPC_STAT, &status) != 0) continue;
    // Process numbers are used again: segments of an earlier process with this number are not ours
    // to remove.
    if (status.shm_cpid == dead && status.shm_nattch == 0 && status.shm_ctime >= since)
      ::shmctl(id, IPC_RMID, nullptr);
  }
}

}  // namespace troupe::actors
