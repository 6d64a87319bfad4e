#include "actors/agent/control_groups.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

/// A mounted hierarchy of control groups.
struct Mount {
  std::string top;      ///< the group that is seen at `point`; a container may see only its own
  fs::path point;       ///< where
  std::string type;     ///< cgroup (version 1) or cgroup2
  std::string options;  ///< of version 1: its controllers, separated by commas
};

bool has_word(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

/// Reads /proc/self/mountinfo, whose fields proc(5) describes.
std::vector<Mount> read_mounts(const fs::path& root) {
  std::vector<Mount> mounts;
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string skipped, point, word;
    Mount mount;
    fields >> skipped >> skipped >> skipped >> mount.top >> point;
    while (fields >> word && word != "-") continue;
    fields >> mount.type >> skipped >> mount.options;
    mount.point = root / fs::path(point).relative_path();
    if (mount.type.starts_with("cgroup")) mounts.push_back(std::move(mount));
  }
  // Another mount may hide the one that the list names.
  mounts.push_back({.top = "/", .point = root / "sys/fs/cgroup", .type = "cgroup2", .options = ""});
  return mounts;
}

/// The process's group in the hierarchy of a controller of version 1, or of version 2 if
/// `controller` is empty: a line of /proc/self/cgroup is "4:cpu,cpuacct:/path" or "0::/path".
std::optional<std::string> group_of(const fs::path& root, const std::string& controller) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? line.starts_with("0::") : has_word(controllers, controller))
      return line.substr(second + 1);
  }
  return std::nullopt;
}

std::vector<fs::path> folders_of(const fs::path& root, const std::vector<Mount>& mounts,
                                 const std::string& controller) {
  std::vector<fs::path> folders;
  const auto group = group_of(root, controller);
  if (!group) return folders;
  for (const Mount& mount : mounts) {
    const bool right = controller.empty()
                           ? mount.type == "cgroup2"
                           : mount.type == "cgroup" && has_word(mount.options, controller);
    if (!right) continue;
    fs::path below = fs::path(*group).lexically_relative(mount.top);
    if (below.empty() || *below.begin() == "..") below = ".";  // the group lies outside the mount
    fs::path folder = (mount.point / below).lexically_normal();
    if (!folder.has_filename()) folder = folder.parent_path();
    for (; folder != mount.point && folder.has_relative_path(); folder = folder.parent_path())
      folders.push_back(folder);
    folders.push_back(mount.point);
  }
  return folders;
}

/// The number at the begin of a file; none if there is none, as in "max".
std::optional<std::int64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

/// The number after a name, in a file with lines of both.
std::optional<std::int64_t> number_named(const fs::path& path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  for (std::int64_t number = 0; file >> word >> number;)
    if (word == name) return number;
  return std::nullopt;
}

}  // namespace

ControlGroups::ControlGroups(const fs::path& root) : machine_kills_(root / "proc/vmstat") {
  const std::vector<Mount> mounts = read_mounts(root);
  memory_1_ = folders_of(root, mounts, "memory");
  cpu_1_ = folders_of(root, mounts, "cpu");
  unified_ = folders_of(root, mounts, "");
}

std::int64_t ControlGroups::memory_limit() const {
  std::int64_t limit = kNoLimit;
  const auto tighten = [&](const fs::path& file) {
    if (const auto bytes = number_in(file); bytes && *bytes > 0) limit = std::min(limit, *bytes);
  };
  for (const fs::path& folder : memory_1_) tighten(folder / "memory.limit_in_bytes");
  for (const fs::path& folder : unified_) tighten(folder / "memory.max");
  // Version 1 says "no limit" as the largest number of whole pages.
  constexpr std::int64_t kLargestPage = 1 << 16;
  return limit > kNoLimit - kLargestPage ? kNoLimit : limit;
}

double ControlGroups::cpu_quota() const {
  double quota = std::numeric_limits<double>::infinity();
  const auto tighten = [&](std::optional<std::int64_t> used, std::optional<std::int64_t> period) {
    if (used && period && *used > 0 && *period > 0)
      quota = std::min(quota, static_cast<double>(*used) / static_cast<double>(*period));
  };
  for (const fs::path& folder : cpu_1_)
    tighten(number_in(folder / "cpu.cfs_quota_us"), number_in(folder / "cpu.cfs_period_us"));
  for (const fs::path& folder : unified_) {
    std::ifstream file(folder / "cpu.max");  // "max 100000" or "50000 100000"
    std::int64_t used = 0, period = 0;
    if (file >> used >> period) tighten(used, period);
  }
  return quota;
}

std::int64_t ControlGroups::memory_kills() const {
  for (const auto& [folders, file] :
       {std::pair(&memory_1_, "memory.oom_control"), std::pair(&unified_, "memory.events")})
    if (!folders->empty())
      if (const auto kills = number_named(folders->front() / file, "oom_kill")) return *kills;
  return number_named(machine_kills_, "oom_kill").value_or(0);
}

}  // namespace troupe::actors
