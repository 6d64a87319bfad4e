#pragma once

#include <cstddef>
#include <vector>

namespace troupe::actors {

/// Which replicas have answered an order to all of them. A second answer of a replica is ignored.
class ReplicaAnswers {
 public:
  /// Begins to wait for the answers to a new order.
  void begin(int num_replicas) {
    has_answered_.assign(static_cast<std::size_t>(num_replicas), false);
    num_missing_ = num_replicas;
  }
  void add(int replica) {
    const auto at = static_cast<std::size_t>(replica);
    if (has_answered_.at(at)) return;
    has_answered_[at] = true;
    --num_missing_;
  }
  bool complete() const { return num_missing_ == 0; }

 private:
  std::vector<bool> has_answered_;
  int num_missing_ = 0;
};

}  // namespace troupe::actors
