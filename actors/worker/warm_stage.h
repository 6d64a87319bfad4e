#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/worker/rank_configuration.h"
#include "actors/worker/worker_devices.h"
#include "transport/memory/slot_pool.h"

namespace troupe::actors {

/// What a rank prepares for a future configuration while it computes: the stage of the new shape,
/// or memory for any stage of a shape, and memory for incoming messages. The configuration then
/// need not wait for the system to clear memory pages.
class WarmStage {
 public:
  /// The spec and the process's devices outlive the object and the stages that it makes. `slots`
  /// serves the rank's data plane. `shares_memory`: the slots may lie in memory that peers write
  /// into.
  WarmStage(const RunSpec& spec, WorkerDevices& devices, std::shared_ptr<transport::SlotPool> slots,
            bool shares_memory);
  ~WarmStage();
  WarmStage(const WarmStage&) = delete;

  /// Carries the order out on a thread of its own, then calls `answer` once. An error is not
  /// reported here, because it comes again when the configuration begins. May be called from any
  /// thread.
  void prepare(const WarmUp& order, const std::function<void()>& answer);
  /// Sets the part that the rank computes now; none while it has no part. The memory of its stage
  /// and edges is not prepared again.
  void set_current(std::optional<RankAssembly> part);
  /// Waits for what is being prepared, and returns the stage that was built; null if none was.
  std::shared_ptr<StageState> take();
  /// Whether a device that tells how full it is (Device::memory()) has room for all that the rank
  /// takes in the shape beside what is on it now.
  bool has_room(const ClusterShape& shape, int rank) const;
  /// Makes a stage of zeros, in the memory that was prepared for any stage if there is such memory.
  std::shared_ptr<StageState> make(const stages::StageSpec& stage, tensor::Device& device);
  /// Returns memory that was prepared and not taken to the system.
  void release();

 private:
  void build(const WarmUp& order);
  void reserve_for_any(const WarmUp& order);
  void prepare_slots(const std::vector<std::size_t>& sizes);
  void release_reserve();

  const RunSpec& spec_;
  WorkerDevices& devices_;
  const std::shared_ptr<transport::SlotPool> slots_;
  const bool shares_memory_;

  std::mutex making_;  // held while a stage or a reserve is made: one thread at a time makes layers
  std::mutex mutex_;   // guards the members below
  std::vector<std::thread> threads_;
  std::shared_ptr<StageState> built_;
  std::optional<ClusterShape> reserved_for_;  ///< the device has memory for any stage of it
  std::optional<RankAssembly> current_;
};

}  // namespace troupe::actors
