#include "stages/replicas/collective_log.h"

#include <chrono>
#include <utility>

#include "tensor/error.h"

namespace troupe::stages {

CollectiveReport& CollectiveLog::add(std::string group, const char* operation) {
  TROUPE_ASSERT(rows_.size() < kMost);
  return rows_.emplace_back(CollectiveReport{.group = std::move(group), .operation = operation});
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace troupe::stages
