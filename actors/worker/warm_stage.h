#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/worker/rank_epoch.h"
#include "transport/slot_pool.h"

namespace troupe::actors {

/// What a rank prepares for an epoch to come while it computes the steps before it: the stage of
/// the new shape, or memory for any stage of a shape, and memory that messages will arrive in. An
/// epoch begins without waiting for pages that the system has to clear.
class WarmStage {
 public:
  /// The spec outlives it. `slots` serves the rank's data plane, whose slots may lie in memory
  /// that peers write into (`shares_memory`).
  WarmStage(const RunSpec& spec, std::shared_ptr<transport::SlotPool> slots, bool shares_memory);
  ~WarmStage();
  WarmStage(const WarmStage&) = delete;

  /// Carries the order out on a thread of its own, then calls `answer`, once. What fails here
  /// fails again, and is reported, when the epoch begins. From any thread.
  void prepare(const WarmUp& order, const std::function<void()>& answer);
  /// The part that the rank computes now; none while it has no part. What it has is not prepared
  /// a second time.
  void set_current(std::optional<RankAssembly> part);
  /// Waits for what is being prepared, and hands over the stage that was built; null if none was.
  std::shared_ptr<StageState> take();
  /// A new stage of zeros, in the memory that was prepared for any stage, if it was.
  std::shared_ptr<StageState> make(const stages::StageSpec& stage);
  /// Gives memory that was prepared, and not taken, back to the system.
  void release();

 private:
  void build(const WarmUp& order);
  void reserve_for_any(const WarmUp& order);
  void prepare_slots(const std::vector<std::size_t>& sizes);

  const RunSpec& spec_;
  const std::shared_ptr<transport::SlotPool> slots_;
  const bool shares_memory_;

  std::mutex mutex_;  // guards what follows
  std::vector<std::thread> threads_;
  std::shared_ptr<StageState> built_;
  std::unique_ptr<tensor::Device> reserve_;   ///< with memory for a stage
  std::optional<ClusterShape> reserved_for_;  ///< of this shape, the largest
  std::optional<RankAssembly> current_;
};

}  // namespace troupe::actors
