#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/protocol/hosts/partition.h"

namespace troupe::actors {

/// Watches over the ways between hosts: when the run stands still and ranks wait for ranks of other
/// hosts, it has those hosts try the way to each other. A way that is found broken twice in a row
/// costs the run one of the two hosts. Steps that merely take long cost nothing but some probes. A
/// state machine without a clock, which its owner tells of the time.
class WayWatch {
 public:
  /// Two hosts, in the order of their names.
  using Pair = std::pair<std::string, std::string>;

  /// The run has moved: a vote has come, a configuration has changed.
  void progressed();
  /// Time has passed. `waits` says between which hosts ranks wait; it is asked if the run stands
  /// still. Returns the pairs of hosts that are to try their ways now, after which tried() is
  /// called; none while that is owed.
  std::vector<Pair> pass(double seconds, const std::function<std::set<Pair>()>& waits);
  /// What came of it: the ways that are broken, judged as in judge_partition().
  std::optional<PartitionVerdict> tried(std::span<const BrokenWay> broken,
                                        const std::map<std::string, int>& ranks,
                                        const std::string& launchers);
  /// How long the run has stood still, in seconds.
  double stands_s() const { return stands_s_; }

 private:
  double stands_s_ = 0;
  double rests_s_ = 0;  ///< until ways are tried again
  bool trying_ = false;
  std::size_t turn_ = 0;      ///< of many pairs, the first that is tried next
  std::set<Pair> suspected_;  ///< broken when they were tried last, while the run stood as it does
};

}  // namespace troupe::actors
