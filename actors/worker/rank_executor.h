#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/topology/reports/allocated_memory.h"
#include "actors/worker/core_binding.h"
#include "actors/worker/rank_configuration.h"
#include "actors/worker/standstill.h"
#include "actors/worker/state/checkpoint_writer.h"
#include "actors/worker/step_orders.h"
#include "actors/worker/warm_stage.h"
#include "actors/worker/worker_devices.h"
#include "actors/worker/worker_files.h"
#include "tensor/device/process_group.h"
#include "transport/node/ucx_node.h"

namespace troupe::actors {

/// A worker's training state, and how each order is carried out on it. Knows no actor. All
/// functions are called from the compute thread, except interrupt(), warm_up(), watch_groups() and
/// activity(). Errors are thrown as Error.
class RankExecutor {
 public:
  using NodeFactory =
      std::function<std::unique_ptr<transport::UcxNode>(std::shared_ptr<transport::SlotPool>)>;
  RankExecutor(RunSpec spec, const Member& self, NodeFactory make_node, WorkerFiles files = {});
  ~RankExecutor();
  const WorkerGpu& gpu() const { return devices_.gpu(); }
  /// The address of the worker's data plane, valid until the next halt().
  std::string address() const { return node_->address(); }

  /// Leaves the configuration, drops state that not all ranks may have reached, and reports the
  /// state that is left.
  Halted halt(const Halt& order);
  /// Builds the order's stage, and memory for its messages, while other orders are carried out; a
  /// configuration that needs such a stage takes both. An order for any rank prepares memory for
  /// any rank of the shape instead. `answer` is called once, from another thread. May be called
  /// from any thread.
  void warm_up(const WarmUp& order, const std::function<void()>& answer) {
    warm_stage_.prepare(order, answer);
  }
  /// Connects to its peers in the configuration, takes the state and builds the stage. Throws
  /// Error{internal} if the order's digest differs from the one that this rank derives itself.
  /// Returns no answer for a worker that only gives its state away.
  std::optional<Ready> begin_configuration(const EnterConfiguration& order);
  /// If the step ends with an Error, the last collectives are written into the run directory. If
  /// the step before was voted on and is not committed yet, its update is made ahead
  /// (updates_ahead()), and the commit is awaited on the way.
  Prepared run_step(const RunStep& order, StepOrders& orders);
  /// What monitors asked to see of a step.
  struct Seen {
    std::vector<Tapped> tapped;
    std::vector<ParameterHistograms> histograms;
    std::vector<TracedActions> actions;
  };
  /// Takes what run_step has recorded; empty if it was taken.
  Seen take_seen() { return std::exchange(seen_, {}); }
  void commit(const Commit& order);
  /// Notes a commit that comes after a step has failed for which its update was made ahead.
  void learn(const Commit& order);
  /// Whether an error has ended an update half way, which leaves state that counts for nothing.
  bool is_updating() const { return is_updating_; }
  /// Writes the state while other orders are carried out; the next commit() waits until it is
  /// written. `answer` is called once, from another thread if this rank has a part to write.
  void save(const Save& order, const std::function<void(Saved)>& answer);
  /// Evaluates one batch. Every rank of the replica receives these orders in the same order.
  Evaluated evaluate(const Evaluate& order);

  /// Ends every wait of the compute thread for a peer, now and until it begins configuration `next`
  /// or a later one, with an Error that holds `reason`. May be called from any thread.
  void interrupt(std::uint32_t next, const std::string& reason);
  /// Whether an interruption forbids this configuration to go on.
  bool is_interrupted(std::uint32_t configuration) const;
  /// Compares what the members of groups of the device call, if the compute thread stands still,
  /// and ends these groups if they do not fit. To be called from time to time, from any thread.
  void watch_groups();
  /// What the compute thread does, and the named wait that it is in. Memory is that of all
  /// configurations that the rank still has.
  Heartbeat activity() const;

 private:
  /// A longer wait for a peer is an error that names it. The director notices at once if a peer
  /// dies; this limit is for failures that nothing notices.
  static constexpr std::chrono::minutes kPeerDeadline{10};
  /// Calls are compared after so long without progress: before a rank counts as hanging.
  static constexpr std::chrono::seconds kStandstill{2};

  void end_configurations_before();
  std::optional<Ready> prepare(const EnterConfiguration& order);
  std::vector<transport::KeptSlots> kept_slots(RankConfiguration& now,
                                               const StatePlan& state) const;
  void connect(const Configuration& configuration, const StatePlan& state,
               const RankAssembly* part);
  void take_state(const EnterConfiguration& order, RankConfiguration* now);
  void step_back(std::int64_t step);
  std::shared_ptr<StageState> next_state(const EnterConfiguration& order,
                                         const RankConfiguration& now);
  void park_state();
  void move_state(const EnterConfiguration& order, RankConfiguration* now);
  Ready::Difference compare_replicas(RankConfiguration& now);
  void copy_first_state(RankConfiguration& now, const std::vector<int>& copied);
  void load(const EnterConfiguration& order, StageState& state);
  void use_base(const EnterConfiguration& order, StageState& state);
  void read_base(const EnterConfiguration& order, StageState& state);
  OpenTokens token_opener(std::uint32_t configuration);
  std::function<void()> waits_for(const std::string& path, std::uint32_t configuration);
  int loading_threads(const HostShare& host) const;
  void open_channel(std::uint32_t configuration, const Configuration& members,
                    std::vector<transport::Edge> edges,
                    std::vector<transport::KeptSlots> kept = {});
  void make_groups(RankConfiguration& now);
  void begin_own_groups(RankConfiguration& now);
  GroupsState state_of_groups() const;
  void use_own_groups();
  void refuse_failed_groups() const;
  void leave_configuration();
  void finish_writing();
  void renew_node(std::uint32_t configuration);
  void use_cores(const HostShare& host);
  std::unique_ptr<transport::UcxNode> new_node() const;
  void refuse_if_interrupted(std::uint32_t configuration) const;
  class AheadGate;
  Prepared compute_step(const RunStep& order, StepOrders& orders);
  PlanResult train(const RunStep& order, std::uint64_t message_step, Tap* tap, AheadGate& gate);
  Prepared vote_of(const RunStep& order, const PlanResult& result);
  void set_state(std::string state);
  void count_memory();

  // Defined in rank_executor_updates.cpp.
  void update(std::int64_t step, double factor);
  void update_ahead(const RunStep& order);
  bool update_stands(StepOrders& orders);
  void update_again();
  void settle_update();

  const RunSpec spec_;
  const Member self_;
  const NodeFactory make_node_;
  const WorkerFiles files_;
  CoreBinding cores_;
  std::chrono::microseconds spin_{0};
  /// Slots that closed nodes have left, for new ones.
  const std::shared_ptr<transport::SlotPool> slots_;
  WorkerDevices devices_;                     ///< before all that has their memory
  tensor::Device* device_;                    ///< what the stage of configuration_ computes with
  std::unique_ptr<transport::UcxNode> node_;  ///< replaced only by halt(), under the lock
  WarmStage warm_stage_;
  std::unique_ptr<RankConfiguration> configuration_;
  std::unique_ptr<RankConfiguration>
      before_;  ///< the configuration before, until all ranks have reached configuration_
  std::vector<NeighbourCopies::HeldCopy>
      held_;  ///< copies taken out of the last configuration that ended
  std::uint64_t next_eval_ = 0;
  CheckpointWriter writer_;  ///< reads the state of configuration_
  Seen seen_;
  /// An update that was made before its step was committed.
  struct UpdateAhead {
    std::int64_t step = 0;
    std::optional<double> factor;  ///< with which the step is committed, once that is known
  };
  std::optional<UpdateAhead> ahead_;
  std::optional<std::int64_t> voted_;  ///< the step that the rank waits to be committed
  bool is_updating_ = false;
  static const inline stages::UnitOrder kReadsNothing{};

  std::atomic<std::uint64_t> progress_{0};  ///< progress of plan runners that are gone
  mutable std::mutex mutex_;  // guards what other threads read: the members below, node_
  std::string state_ = "starting";
  std::vector<tensor::ProcessGroup*> groups_;
  Standstill standstill_{kStandstill};
  const PlanRunner* runner_ = nullptr;
  AllocatedMemory allocated_;  ///< but for what groups and the channel hold
  double longest_action_s_ = 0;
  std::uint32_t min_configuration_ = 0;  ///< configurations before this one must not begin any more
  std::string interrupted_;              ///< reason of the last interruption
  std::condition_variable interruption_;
};

}  // namespace troupe::actors
