#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/worker/checkpoint_writer.h"
#include "actors/worker/core_binding.h"
#include "actors/worker/rank_epoch.h"
#include "actors/worker/warm_stage.h"
#include "tensor/process_group.h"
#include "transport/ucx/ucx_node.h"

namespace troupe::actors {

/// A worker's training state and what it does with it, order by order. Knows no actor. All calls
/// come from the runner thread, except interrupt(), warm_up() and activity(). Errors are thrown as
/// Error.
class RankExecutor {
 public:
  using NodeFactory =
      std::function<std::unique_ptr<transport::UcxNode>(std::shared_ptr<transport::SlotPool>)>;
  RankExecutor(RunSpec spec, const Member& self, NodeFactory make_node);
  ~RankExecutor();
  /// The address of its data plane, until the next halt().
  std::string address() const { return node_->address(); }

  /// Forgets what no rank but this may have reached, and says what is left.
  Halted halt(const Halt& order);
  /// Builds the order's stage, and memory for its messages, beside whatever follows; an epoch that
  /// needs such a stage takes both.
  /// For any rank: has memory for any rank of the shape at hand.
  /// `answer` is called once, from another thread. From any thread.
  void warm_up(const WarmUp& order, const std::function<void()>& answer);
  /// Connects to its peers in the epoch, takes the state and builds the stage. The plan's digest is
  /// compared with the one this rank derives itself: Error{internal} if they differ. No answer of
  /// a worker that only gives its state away.
  std::optional<Ready> begin_epoch(const EnterEpoch& order);
  Prepared run_step(const RunStep& order);
  /// The actions of the step that run_step recorded, once; empty if it recorded none.
  std::vector<TracedActions> take_trace();
  /// The tensors that run_step was to look at, once.
  std::vector<Tapped> take_tapped();
  void commit(const Commit& order);
  /// Writes the state beside whatever follows; the next commit() waits until it is written.
  /// `answer` is called once, from another thread.
  void save(const Save& order, const std::function<void(Saved)>& answer);
  /// One batch, which every rank of the replica is ordered in the same order.
  Evaluated evaluate(const Evaluate& order);

  /// Wakes the runner out of any wait on a peer, now and until it begins epoch `next` or a later
  /// one; its call ends with an Error that holds `reason`. From any thread.
  void interrupt(std::uint32_t next, const std::string& reason);
  /// Whether this epoch must not go on.
  bool is_interrupted(std::uint32_t epoch) const;
  /// What the runner does, and the named wait it is in (empty if none). From any thread.
  struct Activity {
    std::string state;
    std::string waiting_for;
    std::uint64_t progress = 0;
    double longest_action_s = 0;
    std::uint64_t resident_bytes = 0;         ///< memory of the process
    std::uint64_t saved_bytes = 0;            ///< of the newest checkpoint
    std::vector<transport::EdgeCount> edges;  ///< Channel::counts()
  };
  Activity activity() const;

 private:
  void end_epochs_before();
  std::optional<Ready> prepare(const EnterEpoch& order);
  void connect(const Epoch& epoch, const StatePlan& state, const RankAssembly* part);
  void take_state(const EnterEpoch& order, RankEpoch* now);
  void move_state(const EnterEpoch& order, RankEpoch* now);
  void copy_first_state(RankEpoch& now, const std::vector<int>& copied);
  void load(const EnterEpoch& order, StageState& state);
  void open_channel(std::uint32_t epoch, const Epoch& members, std::vector<transport::Edge> edges,
                    std::vector<transport::KeptSlots> kept = {});
  void make_groups(RankEpoch& now);
  void leave_epoch();
  void finish_writing();
  void renew_node();
  void use_cores(const CoreUse& use);
  std::unique_ptr<transport::UcxNode> new_node() const;
  void refuse_if_interrupted(std::uint32_t epoch) const;
  void reduce_gradients();
  void set_state(const char* state);

  const RunSpec spec_;
  const Member self_;
  const NodeFactory make_node_;
  CoreBinding cores_;
  std::chrono::microseconds spin_{0};
  const std::shared_ptr<transport::SlotPool> slots_;  ///< what nodes that are gone have left
  std::unique_ptr<transport::UcxNode> node_;          ///< replaced by halt() alone, under the lock
  std::unique_ptr<tensor::Device> device_;
  WarmStage warm_stage_;
  std::unique_ptr<RankEpoch> epoch_;
  std::unique_ptr<RankEpoch> before_;            ///< until all ranks have reached epoch_
  std::vector<NeighbourCopies::HeldCopy> held_;  ///< taken out of the last epoch that ended
  std::uint64_t next_eval_ = 0;
  CheckpointWriter writer_;  ///< reads the state of epoch_
  std::vector<TracedActions> trace_;
  std::vector<Tapped> tapped_;

  std::atomic<std::uint64_t> progress_{0};  ///< of runners that are gone
  mutable std::mutex mutex_;                // guards what other threads read
  const char* state_ = "starting";
  std::vector<tensor::ProcessGroup*> groups_;
  const PlanRunner* runner_ = nullptr;
  double longest_action_s_ = 0;
  std::uint32_t min_epoch_ = 0;  ///< earlier ones must not begin any more
  std::string interrupted_;      ///< why
};

}  // namespace troupe::actors
