#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors {

/// How often GPUs have failed in a run. One that has failed twice is not used again: a first time
/// may be the program's, or a stray particle's.
class FailedGpus {
 public:
  static constexpr int kMostFailures = 2;

  /// Notes a failure of a host's GPU. Returns whether it is not used again.
  bool add(const std::string& host, const std::string& uuid) {
    return ++failures_[{host, uuid}] >= kMostFailures;
  }
  /// The UUIDs of a host's GPUs that are not used again.
  std::vector<std::string> of_host(const std::string& host) const {
    std::vector<std::string> gpus;
    for (const auto& [gpu, failures] : failures_)
      if (gpu.first == host && failures >= kMostFailures) gpus.push_back(gpu.second);
    return gpus;
  }

 private:
  std::map<std::pair<std::string, std::string>, int> failures_;  // by host and UUID
};

}  // namespace troupe::actors
