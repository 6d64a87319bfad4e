#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "stages/replicas/tied_sums.h"
#include "stages/stage/buckets.h"
#include "stages/stage/stage.h"
#include "tensor/values/dtype.h"

namespace troupe::stages {

struct StageSpec;

/// What the replicas of a stage divide among themselves.
enum class StateDivision {
  none,                ///< nothing: each holds all weights, gradients and moments
  optim,               ///< moments, and with them the update
  optim_grads,         ///< gradients too
  optim_grads_params,  ///< and weights
};

/// How the replicas of a stage reduce their gradients, and what each of them keeps.
struct DataParallelSpec {
  StateDivision division = StateDivision::none;
  BucketRule buckets{.size = 1'000'000};
  /// If gradients may be divided: whether they are reduced after every microbatch, so that none
  /// stays whole. Otherwise they are kept whole and reduced once a step.
  bool every_microbatch = true;
  int instances = 1;     ///< in which the replicas divide state; the caller makes their groups
  int prefetch = 1;      ///< StateSharding::prefetch
  bool reshards = true;  ///< StateSharding::reshards
  bool overlaps = true;  ///< whether a bucket's reduction runs beside the backwards of others
  /// Whether weights that other replicas have updated travel beside what follows the update.
  bool overlaps_gather = true;
  /// What travels between replicas: float32, or bfloat16, which is added in float32 and rounded
  /// once. Shards, copies and instances always exchange float32.
  tensor::DType wire = tensor::DType::f32;
  int microbatches = 1;        ///< of a replica in a step; for checks of divided gradients
  bool checks_finite = false;  ///< looks for gradients that are not finite before they are added
  /// Buckets whose norm is above it, before they are added, are reported; 0: none.
  double large_norm = 0;
  /// Whether replicas whose weights differ when a configuration begins are made equal; else the run
  /// ends.
  bool repairs = false;
  bool checks() const { return checks_finite || large_norm > 0; }
  bool divides_gradients() const {
    return division >= StateDivision::optim_grads && every_microbatch;
  }
  bool divides_weights() const { return division == StateDivision::optim_grads_params; }
  bool operator==(const DataParallelSpec&) const = default;
};

/// A group of a stage's gradients, and its name in reports; null if there is none.
struct GradientGroup {
  tensor::ProcessGroup* group = nullptr;
  std::string name{};
};
/// The other ranks whose gradients are added to those of a stage, besides its own shards.
struct GradientGroups {
  GradientGroup tied;  ///< the stage with the other use of a tied embedding
  /// Whether that group has all replicas of both stages, as where they have not as many: its sum is
  /// that over replicas too. Not where gradients are divided.
  bool tied_sums_replicas = false;
  /// What its members exchange instead, if their stages cut the matrix otherwise; else empty.
  TiedParts tied_parts{};
  GradientGroup mirror;  ///< the stage that holds a copy of the same layers
  /// This stage in all replicas; or in those of an instance, if the replicas form several, each of
  /// which divides the state among its members (HSDP, arXiv 2304.11277).
  GradientGroup replicas;
  GradientGroup instances;  ///< the replicas that keep the same slices, one in each instance
  /// A second group of the same replicas in the same order, if each keeps the slice of the one
  /// before it too (StateSharding::twins).
  GradientGroup twins;
  /// Two more of them, if weights are divided: they are gathered for forwards and for backwards in
  /// an order of each.
  tensor::ProcessGroup* forward_weights = nullptr;
  tensor::ProcessGroup* backward_weights = nullptr;
  /// If replicas share experts out: those of `replicas` that hold the same ones, in their order,
  /// maybe this one alone. They complete the gradients of these (Parameter::is_expert).
  GradientGroup experts;
  /// Two more of them, if weights are divided. Null if this replica alone holds its experts.
  tensor::ProcessGroup* expert_forward_weights = nullptr;
  tensor::ProcessGroup* expert_backward_weights = nullptr;
};

/// The collectives of one kind of a step.
struct CollectiveReport {
  std::string group;
  const char* operation = "";  ///< "all-reduce", "reduce-scatter", "all-to-all", "all-gather"
  int count = 0;
  std::int64_t bytes = 0;  ///< of the whole tensors, as they travel
  double time_s = 0;       ///< from each one's call to its end, added up
  double exposed_s = 0;    ///< the part of it that the caller stood still for them

  void clear() { *this = {.group = std::move(group), .operation = operation}; }
  /// Counts one more, which moves x.
  void add(const tensor::Tensor& x) {
    ++count;
    bytes += static_cast<std::int64_t>(x.num_bytes());
  }
};

/// When a bucket's collective over one of the groups was under way; times of the steady clock.
struct CollectiveSpan {
  const CollectiveReport* of = nullptr;
  int bucket = 0;
  double begin_s = 0;
  double end_s = 0;
};

/// A bucket whose norm, before it was added to others, is above DataParallelSpec::large_norm.
struct LargeBucket {
  int bucket = 0;
  double norm = 0;
};

/// Whether later microbatches of the step add to a gradient.
enum class Microbatch { earlier, last };

/// The buckets whose weights nodes read, in the order in which they are called, each once in a row.
struct UnitOrder {
  std::vector<int> forward, backward;
};

/// Keeps the replicas of a stage equal: completes the gradients of a step and updates the weights.
/// A step is complete_weights(); begin_step(); added() for each node of a backward, as it is
/// queued; finish(); squared_norms(); apply(); share_weights(). It is the stage's gate, if the
/// replicas divide gradients or weights. All calls come from the compute
/// thread, in the same order on every replica and shard of the stage. A collective that fails,
/// because a member is lost, throws Error{unavailable}; the next begin_step() forgets the step that
/// was given up. Nothing allocates after the second step.
class DataParallel : public NodeGate {
 public:
  /// The bytes that it has allocated, which do not change.
  virtual std::int64_t allocated() const = 0;
  virtual void begin_step() = 0;
  /// Says which weights the nodes from now on read, up to the next call: those of a step, or of an
  /// evaluation. Without divided weights nothing depends on it. `order` outlives its use here.
  virtual void expect(const UnitOrder& order) = 0;
  /// Says that the node which was queued last, and at whose end `ran` is marked, adds to gradients
  /// (NodeEffects). For an earlier microbatch that starts nothing (others call it no_sync), unless
  /// gradients are divided. For the last one it starts the reduction of each bucket that lacked
  /// nothing else.
  virtual void added(const NodeEffects& node, Microbatch microbatch, tensor::Event& ran) = 0;
  /// Goes on with reductions under way. Called now and then; never waits for another rank.
  virtual void progress() = 0;
  /// Starts the reductions of what is left, and blocks until the gradients of the slices that this
  /// replica keeps are complete (Parameter::kept_gradient); elsewhere gradients may have any values
  /// then. Called after Stage::synchronize().
  virtual void finish() = 0;
  /// Stage::squared_norms() of the gradients of all slices.
  virtual void squared_norms(std::span<double> out) = 0;
  /// Stage::apply(). Needs no other replica: once it returns, the update is made in all slices that
  /// this one keeps.
  virtual void apply(const tensor::AdamWStep& step) = 0;
  /// Starts to gather the weights of slices that only others keep: after an update, or after each
  /// replica was given its slices. Divided weights are gathered only when nodes read them.
  virtual void share_weights() = 0;
  /// Blocks until the weights are whole, unless they are divided. Nobody may read or write them
  /// between share_weights() and this.
  virtual void complete_weights() = 0;

  // What the last finish() found, valid until the next begin_step(); all-gathers are those of the
  // share_weights() before, or those of divided weights since the begin_step() before.

  virtual std::span<const CollectiveReport> collectives() const = 0;
  /// The same, one by one, in the order of their ends as this rank noticed them.
  virtual std::span<const CollectiveSpan> spans() const = 0;
  /// "the gradient of NAME, in bucket 3, is not finite before it is summed"; empty: all are finite,
  /// or nobody looked.
  virtual const std::string& not_finite() const = 0;
  virtual std::span<const LargeBucket> large_buckets() const = 0;
};

/// What keeps the replicas of a stage equal. `stage` and the groups outlive it; the groups that are
/// given decide who is added. The stage's slices are those of the group of replicas and of
/// `spec.buckets`, or it has all state. The device is the stage's.
std::unique_ptr<DataParallel> make_data_parallel(const DataParallelSpec& spec, Stage& stage,
                                                 const GradientGroups& groups,
                                                 tensor::Device& device);
/// Bytes that make_data_parallel() allocates for a stage with so many replicas.
std::int64_t data_parallel_bytes(const DataParallelSpec& spec, const StageSpec& stage,
                                 int replicas);

}  // namespace troupe::stages
