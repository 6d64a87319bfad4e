#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/messages.h"
#include "actors/plan_runner.h"
#include "stages/token_data.h"
#include "tensor/process_group.h"
#include "transport/ucx_node.h"

namespace troupe::actors {

/// A rank's training state and what it does with it, order by order. Knows no actor. All calls come
/// from the runner thread, except interrupt() and activity(). Errors are thrown as Error.
class RankTrainer {
 public:
  RankTrainer(RunSpec spec, int rank, transport::UcxNode& node);
  ~RankTrainer();

  /// Connects to the epoch's members, builds the stage and loads its state. The plan's digest is
  /// compared with the one this rank derives itself: Error{internal} if they differ.
  Ready begin_epoch(const BeginEpoch& order, const PlanOrder& plan);
  Prepared run_step(const RunStep& order);
  void commit(const Commit& order);
  Saved save(const Save& order);
  Evaluated evaluate(const Evaluate& order);

  /// Wakes the runner out of any wait on a peer; its call ends with an Error that holds `reason`.
  /// From any thread.
  void interrupt(const std::string& reason);
  /// What the runner does, and the named wait it is in (empty if none). From any thread.
  struct Activity {
    std::string state;
    std::string waiting_for;
  };
  Activity activity() const;

 private:
  struct EpochParts;
  void connect(const Epoch& epoch, const RankAssembly& part);
  void load(const BeginEpoch& order);
  void reduce_gradients();
  void set_state(const char* state);

  const RunSpec spec_;
  const int rank_;
  transport::UcxNode& node_;
  std::unique_ptr<tensor::Device> device_;
  std::unique_ptr<EpochParts> epoch_;  // replaced as a whole at each epoch
  std::uint64_t next_eval_ = 0;

  mutable std::mutex mutex_;  // guards what other threads read
  const char* state_ = "starting";
  std::vector<tensor::ProcessGroup*> groups_;
};

}  // namespace troupe::actors
