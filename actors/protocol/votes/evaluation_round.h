#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
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
  /// Batches are numbered through one set after the other; `batches_of_sets` says how many each
  /// has.
  void begin(std::span<const std::int64_t> batches_of_sets, int num_replicas);
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
  /// Mean losses over all targets of the batches that are done, by set.
  std::vector<double> mean_losses() const;

 private:
  /// What is done of a set.
  struct Set {
    std::int64_t end = 0;           // the first batch that is not of it or of sets before it
    std::vector<double> loss_sums;  // by replica
    std::int64_t targets = 0;
  };
  bool next_is_done() const;

  std::int64_t num_batches_ = 0, num_done_ = 0, num_ordered_ = 0;
  int num_replicas_ = 0;
  std::vector<Set> sets_;
  // Losses of batches that are not done, by batch and replica.
  std::map<std::pair<std::int64_t, int>, Loss> waiting_;
};

}  // namespace troupe::actors
