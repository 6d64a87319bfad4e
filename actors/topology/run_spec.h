#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/analysis/costs.h"
#include "schedules/plan/plan.h"
#include "stages/corpus/text/documents.h"
#include "stages/corpus/text/text_rules.h"
#include "stages/decoder/stage/optimizer.h"
#include "stages/model/model_config.h"
#include "stages/replicas/data_parallel.h"
#include "stages/stage/recompute.h"
#include "tensor/device/device.h"
#include "transport/wire/edge_placement.h"

namespace troupe::actors {

/// A machine of the cluster.
struct Host {
  std::string name;               ///< unique in the run
  int slots = 1;                  ///< ranks that it may have at a time
  int cores = 0;                  ///< 0: unknown
  std::int64_t memory_bytes = 0;  ///< 0: unknown
  bool operator==(const Host&) const = default;
};

/// Everything that decides what a run computes and where, as plain checked values: the resolved
/// manifest's meaning. Director and workers derive the same from the same manifest text.
struct RunSpec {
  std::string name;
  std::string dir;  ///< absolute path of the run directory
  std::uint64_t seed = 0;
  std::int64_t max_steps = 0;  ///< absolute: also after a resume

  stages::ModelConfig model;
  stages::OptimizerConfig optimizer;
  /// When a stage updates its weights.
  enum class Validation {
    barrier,    ///< once the norm of the whole model's gradient is known
    post,       ///< before that, and again where it turns out that the update had to be another
    automatic,  ///< post where that makes a step shorter and takes no memory (updates_ahead())
  };
  Validation validation = Validation::barrier;

  struct Data {
    struct Source {
      std::string name;                  ///< empty: the one source of a run that has no mixture
      std::vector<std::string> files{};  ///< text, of which launch has made the tokens
      std::string tokens;                ///< path of the token file (TokenFile::open)
      double weight = 1;
      std::string digest{};  ///< of the token ids (stages::scan_tokens)
      bool operator==(const Source&) const = default;
    };
    std::vector<Source> sources;
    /// Digest of the token ids (stages::scan_tokens), or of a mixture's digests and weights;
    /// checkpoints record it.
    std::string digest;
    std::string tokenizer = "bytes";
    bool shuffle = false;
    stages::LossOn loss_on = stages::LossOn::all;
    stages::TextRules rules;
    /// The first shard of a stage alone opens the token files, and sends the others what it reads.
    bool first_shard_reads = false;
  } data;

  struct Batch {
    std::int64_t seq_len = 0;
    std::int64_t micro = 1;
    std::int64_t global = 1;  ///< samples per step
    stages::Documents documents = stages::Documents::joined;
    /// Microbatches in a step of one of `dp` replicas.
    int microbatches(int dp) const { return static_cast<int>(global / dp / micro); }
  } batch;

  /// Replicas of a stage, and shards of each.
  struct Width {
    int dp = 1;
    int tp = 1;
    bool operator==(const Width&) const = default;
  };
  struct Mesh {
    int pp = 1;  ///< stages
    int dp = 1;  ///< replicas of each; where stages differ, of those that have most
    int tp = 1;  ///< shards of each replica; where stages differ, of those that have most
    bool sequence_parallel = false;  ///< stages::Sharding::sequence_parallel
    std::vector<Width> widths{};     ///< by stage, if they differ; else empty
    int ep = 1;   ///< stages::Sharding::ep; divides dp, and is 1 where stages differ
    int etp = 0;  ///< shards of an expert: 1 (stages::Sharding::whole_experts); 0: as of all

    bool is_even() const { return widths.empty(); }
    Width width(int stage) const {
      return is_even() ? Width{dp, tp} : widths[static_cast<std::size_t>(stage)];
    }
    /// Gives the stages these widths, one for each.
    void set_widths(std::vector<Width> of_stages);
    /// The ranks of a replica: of the stages that have so many. The first has all stages.
    int ranks_of_replica(int replica = 0) const;
    int num_ranks() const;
    /// Replicas of the stage that has most whose samples a replica of this one computes.
    int lanes_of(int stage) const { return dp / width(stage).dp; }
    /// Samples of a microbatch in a replica of this stage, of which `micro` are computed where
    /// stages have most replicas.
    std::int64_t micro_of(int stage, std::int64_t micro) const { return micro * lanes_of(stage); }
    bool operator==(const Mesh&) const = default;
  } mesh;
  std::string layout;  ///< how layers are split over chunks: the text of a LayerSplit

  struct Schedule {
    std::string kind = "1f1b";
    int chunks = 1;
    std::string csv;  ///< plan text if kind is "csv"
    /// Costs that a searched schedule is made for, one value or one a chunk
    /// (schedules::parse_costs); empty: unit_costs().
    std::string costs;
    bool operator==(const Schedule&) const = default;
  } schedule;

  stages::Recompute recompute;
  stages::DataParallelSpec data_parallel;
  struct AutoLayout {
    bool on = false;
    double gain = 0;         ///< smallest share of a step that makes a move worth it
    std::int64_t steps = 1;  ///< smallest number of steps between two measurements
  } auto_layout;

  struct Checkpoint {
    std::int64_t interval = 0;  ///< in steps; 0: only at the end
    int keep = 3;
    int keep_best = 0;     ///< beside them, by the loss on the first evaluation set
    bool initial = false;  ///< save step 0 too
    std::string resume;    ///< directory of the checkpoint to start from; empty: fresh weights
    bool weights_only = false;
  } checkpoint;

  struct Eval {
    /// Text to evaluate on.
    struct Set {
      std::string name;                  ///< empty: the only one, eval.files
      std::vector<std::string> files{};  ///< text, of which launch has made the tokens
      std::string tokens;                ///< path of the token file
      std::string digest;                ///< of the token ids (stages::scan_tokens)
      std::int64_t samples = 0;          ///< that the token file makes; each counts once at most
      bool operator==(const Set&) const = default;
    };
    std::int64_t interval = 0;  ///< in steps; 0: never
    std::int64_t steps = 0;     ///< global batches of each set in an evaluation, at most
    std::vector<Set> sets;      ///< at least one if the run evaluates
    /// Whether workers keep the memory of their gradients during an evaluation.
    bool keeps_gradients = true;

    /// A global batch of an evaluation, which goes through one set after the other.
    struct Batch {
      std::size_t set = 0;
      std::int64_t number = 0;   ///< within the set
      std::int64_t samples = 0;  ///< in it: the last of a set may have fewer than the others
    };
    /// Global batches of a set: as many as asked for, or as there are samples.
    std::int64_t batches_of(const Set& set, std::int64_t global) const;
    /// Global batches of all sets.
    std::int64_t batches(std::int64_t global) const;
    Batch batch(std::int64_t number, std::int64_t global) const;
    /// What the loss of the first set is a loss of. Losses of two runs, or of two times of one, are
    /// comparable if it is the same.
    std::string compared(std::int64_t global) const;
  } eval;

  struct Cluster {
    tensor::DeviceSpec device;                      ///< what each worker computes with
    std::vector<tensor::DeviceKind> stage_kinds{};  ///< by stage, if they differ (device_of())
    /// How the devices' own groups add, if they have any.
    tensor::CollectiveSums collectives = tensor::CollectiveSums::ordered;
    /// Where the devices' slots for messages of other ranks lie, if they have memory of their own.
    transport::EdgeChoice edges = transport::EdgeChoice::automatic;
    /// The GPUs of each machine that workers take by turns (tensor::gpus_in_order); none: all.
    std::vector<std::string> gpus;
    /// UUIDs of this process's machine's that have failed and are not used. Only a worker knows it.
    std::vector<std::string> failed_gpus{};
    /// What a process takes of a GPU before it allocates (measure_contexts), if the launcher knows.
    std::optional<std::int64_t> context_bytes{};
    std::optional<bool> pin = false;   ///< bind each rank to cores of its own; none: core_use()
    std::optional<bool> spin = false;  ///< wait for messages by polling; none: core_use()
    int cores = 0;                     ///< free cores of this process's machine; 0: not known
    int port = 0;                      ///< of the control plane; 0: any free one
    std::string interface;             ///< of messages between hosts; empty: towards the director
    std::string ports;                 ///< of messages, "29600-29700"; empty: any free ones
    /// The machines of the run; none: this one alone. Only the launching process knows them.
    std::vector<Host> hosts;
    bool tp_across_hosts = false;  ///< the shards of a stage may lie on several
    /// By stage, the names of the hosts on which its ranks lie; empty: any, of every stage or one.
    std::vector<std::vector<std::string>> stage_hosts{};
  } cluster;

  /// What to do about a worker that is lost.
  enum class OnFailure {
    replace,  ///< spawn another one; shrink if that fails
    shrink,   ///< go on with fewer stages or replicas
    stop,     ///< end the run
  };
  struct Recovery {
    OnFailure on_failure = OnFailure::replace;
    int spares = 0;       ///< warm processes kept ready
    int spare_hosts = 0;  ///< hosts, the last ones, that are kept free for those of a lost one
    double silent_s = 3;  ///< a process that says nothing for so long is lost; 0: never
    double hang_s = 5;    ///< an action that takes at least so long is hung; 0: never
    int restarts_per_hour = 100;  ///< the run stops in order if there are more
    bool neighbour_copies = true;
    std::int64_t copy_interval = 1;  ///< committed steps between two of these copies
    bool grow_back = true;           ///< a smaller cluster takes in hosts that join
  } recovery;

  std::int64_t log_interval = 1;
  std::int64_t histogram_interval = 0;  ///< steps between histograms of all parameters; 0: none

  int num_microbatches() const { return batch.microbatches(mesh.dp); }
  int num_ranks() const { return mesh.num_ranks(); }
  /// Tokens of a step if each sample has seq_len of them, as joined samples have.
  std::int64_t global_tokens() const { return batch.global * batch.seq_len; }
};

/// How the ranks of a machine use its cores.
struct CoreUse {
  bool pin = false;   ///< each rank is bound to cores of its own
  bool spin = false;  ///< each rank waits for messages by polling
  bool operator==(const CoreUse&) const = default;
};
/// What the cluster's settings say. Settings that say nothing follow from the free cores: pinning
/// needs a core for each thread of each rank, polling one more a rank.
CoreUse core_use(const RunSpec::Cluster& cluster, std::int64_t ranks);

/// The directory in which the run keeps the state of a step.
inline std::string checkpoint_path(const RunSpec& spec, std::int64_t step) {
  return spec.dir + "/checkpoints/step-" + std::to_string(step);
}

/// Costs for plans before any are measured: F, I and W take equally long, but I longer by what it
/// computes again of F. Microbatches that keep everything count as the others.
schedules::Costs unit_costs(const RunSpec& spec);
/// The costs of schedule.costs by chunk, for a prediction of the runtime; unit_costs() if there
/// are none. Throws Error{manifest}.
schedules::Costs costs_of(const RunSpec& spec);
/// The plan of a step, in order (schedules::in_order). Requires a spec that has been checked.
schedules::Plan make_plan(const RunSpec& spec);
/// The plan of an evaluation: forwards only.
schedules::Plan make_eval_plan(const RunSpec& spec);

}  // namespace troupe::actors
