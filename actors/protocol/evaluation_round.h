#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace troupe::actors {

/// The evaluation under way. A few batches are ordered ahead of those that are done. Losses are
/// added in the order of batches and replicas, whatever the order in which they arrive.
class EvaluationRound {
 public:
  /// The sum of a replica's losses in a batch, and the batch's targets in all replicas.
  struct Loss {
    double sum = 0;
    std::int64_t targets = 0;
  };
  void begin(std::int64_t num_batches, int num_replicas);
  /// The next batch to order, which then counts as ordered; none if all, or enough for now, are
  /// ordered.
  std::optional<std::int64_t> order();
  /// Adds a replica's loss of a batch; it is ignored if the batch is done already.
  void add(std::int64_t batch, int replica, const Loss& loss);

  /// The number of batches of which every replica has sent its loss.
  std::int64_t num_done() const { return num_done_; }
  bool complete() const { return num_done_ == num_batches_; }
  /// Whether every batch that was ordered is done.
  bool idle() const { return num_done_ == num_ordered_; }
  /// The sum of losses over all targets of the batches that are done, and their mean.
  double loss_sum() const;
  double mean_loss() const { return loss_sum() / static_cast<double>(targets_); }

 private:
  bool next_is_done() const;

  std::int64_t num_batches_ = 0, num_done_ = 0, num_ordered_ = 0;
  std::vector<double> loss_sums_;  // by replica, over the batches that are done
  std::int64_t targets_ = 0;       // of the batches that are done
  // Losses of batches that are not done, by batch and replica.
  std::map<std::pair<std::int64_t, int>, Loss> waiting_;
};

}  // namespace troupe::actors
