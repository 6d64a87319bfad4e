#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/topology/reports/member_status.h"
#include "actors/topology/reports/outcome.h"

namespace troupe::actors {

/// What the groups of a rank communicate by.
enum class GroupsState : std::uint8_t {
  none,    ///< it has none, or those of hosts, which need nothing else
  staged,  ///< host memory, through which tensors of a device are staged
  ready,   ///< the same, and the device's own means can take over
  own,     ///< the device's own means
};

/// One committed step.
struct StepReport {
  struct StageTime {
    int replica = 0;
    int stage = 0;
    int shard = 0;
    double busy_s = 0;
    double idle_s = 0;        ///< the rest of the step's actions and the waits between them
    double collective_s = 0;  ///< the part of it in which actions waited for collectives of shards
    /// Memory of the rank's GPU, used by all processes, and in all; 0 on a CPU.
    std::uint64_t device_used_bytes = 0, device_total_bytes = 0;
    /// On several hosts: what the rank sent to ranks of its host, and to those of others: tensors
    /// between stages, parts of collectives, copies of state. 0 if all ranks are on one host.
    std::uint64_t host_bytes = 0, network_bytes = 0;
    GroupsState groups = GroupsState::none;
  };
  struct EdgeBytes {
    int from = 0;
    int to = 0;
    std::uint64_t bytes = 0;
    double wait_s = 0;  ///< time that `to` waited for messages of `from`
  };
  /// The collectives of a step that complete gradients, of one group and operation.
  struct Collectives {
    std::string group;
    std::string operation;
    int count = 0;           ///< of a member
    std::int64_t bytes = 0;  ///< of a member: whole tensors, as they travel
    double time_s = 0;       ///< from calls to ends, of the member that took longest
    double exposed_s = 0;    ///< that the member which waited longest stood still for them
  };
  struct SourceSum {
    double loss_sum = 0;
    std::int64_t targets = 0;
  };
  /// What samples of one source had.
  struct SourceLoss {
    std::string name;
    double loss = 0;  ///< mean over its targets; NaN if the step had none of it
    std::int64_t tokens = 0;
    bool operator==(const SourceLoss&) const = default;
  };
  /// What the router of a layer has done, over all tokens of the step.
  struct Router {
    int layer = 0;
    /// By expert: the tokens that chose it, divided by the tokens.
    std::vector<double> load;
    double entropy = 0;  ///< of a token's probabilities, in nats
    /// Experts * sum_e load_e * (mean probability of e), the mean over microbatches; as much as
    /// each token chooses experts if loads are even.
    double balance = 0;
    double z = 0;  ///< the mean square of log(sum_e exp(logit_e))
    bool operator==(const Router&) const = default;
  };
  std::int64_t step = 0;  ///< from 1
  double loss = 0;        ///< mean over the global batch's targets, before the update
  double aux_loss = 0;    ///< what is added to it for routers, with its coefficients
  double grad_norm = 0;   ///< before clipping
  double lr = 0;
  std::int64_t tokens = 0;
  std::vector<SourceLoss> sources;  ///< none of a run without a mixture
  std::vector<Router> routers;      ///< by layer; none of a model without experts
  std::int64_t first_sample = 0;    ///< counting on, not modulo the number of samples
  double step_s = 0;
  double tokens_per_s() const { return step_s > 0 ? static_cast<double>(tokens) / step_s : 0; }
  /// What the stages of a replica measured. Shared, because a report of many ranks has many
  /// readers.
  struct Measured {
    std::vector<StageTime> stages;
    std::vector<EdgeBytes> edges;
    std::vector<Collectives> collectives;
    std::vector<SourceSum> sources;
    std::vector<Router> routers;  ///< the replica's parts
  };
  std::vector<std::shared_ptr<const Measured>> replicas;

  /// What the stages of all replicas measured.
  std::vector<StageTime> stages() const { return all(&Measured::stages); }
  std::vector<EdgeBytes> edges() const { return all(&Measured::edges); }
  std::vector<Collectives> collectives() const { return of_groups(all(&Measured::collectives)); }
  /// One row for the rows of all members of a group.
  static std::vector<Collectives> of_groups(const std::vector<Collectives>& of_members);

 private:
  template <typename T>
  std::vector<T> all(std::vector<T> Measured::*rows) const {
    std::vector<T> all;
    for (const auto& replica : replicas)
      all.insert(all.end(), ((*replica).*rows).begin(), ((*replica).*rows).end());
    return all;
  }
};

/// The loss of an evaluation on one of several sets.
struct SetLoss {
  std::string name;
  double loss = 0;
  bool operator==(const SetLoss&) const = default;
};
/// "2.8141", or of several sets "text 2.8141, code 1.9020".
std::string losses_text(double loss, const std::vector<SetLoss>& sets);
struct EvalReport {
  std::int64_t step = 0;
  double loss = 0;            ///< on the only set, or the first one
  std::vector<SetLoss> sets;  ///< all, in the manifest's order; none if there is but one
};

/// Seconds that the parts of a recovery or of an ordered change took, in their order, added up over
/// all attempts. A part that was not needed took 0.
struct RecoveryPhases {
  double detect_s = 0;      ///< from the last sign of life to the first notice; 0 for an order
  double decide_s = 0;      ///< to the director's decision
  double spawn_s = 0;       ///< until all had stopped, and missing workers had joined
  double move_s = 0;        ///< until every rank held its state
  double rebuild_s = 0;     ///< plans, connections, buffers
  double catch_up_s = 0;    ///< steps that were committed before and are computed again
  double first_step_s = 0;  ///< until the first step after it was committed
};
/// A phase, by the one name that people are told everywhere.
struct PhaseName {
  std::string_view name;
  double RecoveryPhases::*seconds;
};
inline constexpr std::array<PhaseName, 7> kPhaseNames{
    {{"detect", &RecoveryPhases::detect_s},
     {"decide", &RecoveryPhases::decide_s},
     {"spawn", &RecoveryPhases::spawn_s},
     {"move", &RecoveryPhases::move_s},
     {"rebuild", &RecoveryPhases::rebuild_s},
     {"catch up", &RecoveryPhases::catch_up_s},
     {"first step", &RecoveryPhases::first_step_s}}};

/// The way back to the newest step after a recovery went back to an older state: steps are computed
/// again, and have the bits that they had.
struct CatchUp {
  std::int64_t back_to = 0;  ///< step of the state that it went back to
  std::int64_t reached = 0;  ///< the newest step that was ever committed
};
/// "goes back to step 40, 50 steps to compute again".
std::string to_string(const CatchUp& way);

/// A change of the cluster that is over: one that was ordered, or any other, of which most are
/// recoveries. An order that is carried out while a recovery catches up is a change of its own.
struct ChangeReport {
  bool recovery = false;  ///< a worker was lost
  std::string cause;      ///< cause of the first loss
  std::string order;      ///< empty: the change was not ordered
  int rank = -1;          ///< rank that was lost first; -1: none
  int losses = 0;         ///< workers that were lost
  /// Where the oldest state on the way came from: "memory", "checkpoint", or "start", what the run
  /// began with.
  std::string from;
  std::string before;  ///< mesh, schedule and layers, for people
  std::string after;
  std::int64_t step =
      0;  ///< first step after the change, or, of others than orders, the first new one
  RecoveryPhases phases;
  double stall_s = 0;  ///< all phases together
};
/// What was done and how long it took. If the shape has changed, or was ordered, the shapes before
/// and after follow, each behind `between`.
std::string to_string(const ChangeReport& change, const char* between);

/// What became of an order to change the cluster.
struct ScaleAnswer {
  int code = 0;  ///< 0: done; else an exit code
  std::string text;
};
/// What became of an order to make a checkpoint.
struct SaveAnswer {
  int code = 0;            ///< 0: the checkpoint is complete; else an exit code
  std::int64_t step = -1;  ///< of the checkpoint
  std::string text;        ///< why there is none
};

/// Fills in the ranks of hosts, and what they sent in a step of which these are the times.
void count_ranks(std::vector<HostStatus>& hosts, const std::vector<RankStatus>& ranks,
                 const std::vector<StepReport::StageTime>& times);

struct RunStatus {
  std::string state;  ///< starting, running, catching up, saving, stopping, ended
  std::int64_t step = 0;
  std::int64_t max_steps = 0;
  std::uint32_t configuration = 0;
  std::uint64_t refused = 0;  ///< messages of workers that were refused as impossible
  Pipeline pipeline;          ///< without chunks before the first configuration
  std::vector<RankStatus> ranks;
  std::vector<HostStatus> hosts;  ///< none if it is the launcher's alone
  /// Cause of the newest failure until steps go on; empty in a run on one host.
  std::string failure;
  std::optional<std::int64_t> evaluated;  ///< batches done of the evaluation under way
  std::int64_t evaluations = 0;           ///< batches of an evaluation
  std::optional<std::int64_t> saving;     ///< step of the checkpoint under way
  std::uint64_t checkpoint_bytes = 0;     ///< size of a checkpoint's tensors
  std::optional<CatchUp> catch_up;        ///< while steps are computed again
};

struct ClusterShape;

/// Receives what happens in a run, one call at a time, on a thread that nothing else waits for: a
/// call may take long.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void on_step(const StepReport& report) = 0;
  /// A step was computed again, with the bits that were reported before.
  virtual void on_step_again(const StepReport& report, const CatchUp& way) = 0;
  virtual void on_eval(const EvalReport& report) = 0;
  virtual void on_checkpoint(std::int64_t step, const std::string& path) = 0;
  /// A checkpoint could not be written; the run goes on.
  virtual void on_not_saved(std::int64_t step, const std::string& error) = 0;
  /// The cluster has another shape, and the first step of it is committed. `ordered`: a user asked
  /// for it; otherwise it lost workers that nothing replaced, or left hosts.
  virtual void on_scaled(const ClusterShape& shape, bool ordered) = 0;
  /// Other hosts take part than before.
  virtual void on_hosts() {}
  /// A line for people and logs.
  virtual void on_event(const std::string& text) = 0;
};

}  // namespace troupe::actors
