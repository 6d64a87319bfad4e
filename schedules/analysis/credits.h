#pragma once

#include <optional>
#include <vector>

#include "schedules/analysis/validate.h"
#include "schedules/plan/plan.h"

namespace troupe::schedules {

/// Runs a step without clocks, but with the receive slots and send buffers of the runtime
/// (capacities() describes them). The plan must obey SCHED-1 to SCHED-5 and outlive the run.
class CreditRun {
 public:
  CreditRun(const Plan& plan, std::vector<ChunkCapacity> capacities);

  /// Runs until the plan ends or no rank can go on. True at the end of the plan.
  bool advance();
  /// Adds slots to edges whose lack of one stops a rank, so that advance() gets further. False if
  /// no rank is stopped by that, in which case the plan waits for itself.
  bool add_slots();
  /// The number of actions that have run, by rank.
  const std::vector<std::size_t>& done() const { return done_; }
  /// The capacities that the run was made with, plus the slots that add_slots() added.
  std::vector<ChunkCapacity> capacities() const;

  // ready() and run() are the rules of progress().
  bool ready(int rank, const Action& action) const;
  void run(int rank, const Action& action);

 private:
  /// The messages into one chunk from one neighbour, numbered in the order they are sent.
  struct Edge {
    int slots = 0;
    int send_buffers = 0;  ///< 0 within a rank, because the sender writes into the receive slot
    int sent = 0;
    int released = 0;
    std::vector<int> number;  ///< by microbatch; kNotSent before it is sent

    bool arrived(int microbatch) const;
    bool can_send() const { return sent - released < slots + send_buffers; }
  };
  /// Index in edges_ of the edge that leads into a chunk from the one before it.
  std::size_t forward_into(int chunk) const { return 2 * static_cast<std::size_t>(chunk); }
  /// Index in edges_ of the edge that leads into a chunk from the one after it.
  std::size_t backward_into(int chunk) const { return 2 * static_cast<std::size_t>(chunk) + 1; }
  /// The edge that an F, B or I reads from; none if its input does not come over an edge.
  std::optional<std::size_t> input(const Action& action) const;
  /// The edge that an F, B or I writes to; none if its output does not leave over an edge.
  std::optional<std::size_t> output(const Action& action) const;

  static constexpr int kNotSent = -1;
  const Plan& plan_;
  std::vector<ChunkCapacity> capacities_;
  bool forward_only_;
  std::vector<Edge> edges_;
  std::vector<std::size_t> done_;
};

}  // namespace troupe::schedules
