#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace troupe::actors {

/// The evaluation under way: batches are ordered a few ahead of those that are done, and their
/// losses are added in the order of batches and replicas, whichever comes first. Done batches are
/// never more than ordered ones.
class EvaluationRound {
 public:
  void begin(std::int64_t num_batches, int num_replicas);
  /// The next batch to order, which counts as ordered then; none while enough are, or all.
  std::optional<std::int64_t> order();
  /// A replica's loss of a batch; of one that is done already it is ignored.
  void add(std::int64_t batch, int replica, double loss_sum);

  /// Batches of which every replica's loss is in.
  std::int64_t num_done() const { return num_done_; }
  bool complete() const { return num_done_ == num_batches_; }
  /// Everything that was ordered is done.
  bool idle() const { return num_done_ == num_ordered_; }
  /// Sum over all tokens of the batches that are done.
  double loss_sum() const;

 private:
  bool next_is_done() const;

  std::int64_t num_batches_ = 0, num_done_ = 0, num_ordered_ = 0;
  std::vector<double> loss_sums_;                           // by replica, of the batches done
  std::map<std::pair<std::int64_t, int>, double> waiting_;  // by batch and replica
};

}  // namespace troupe::actors
