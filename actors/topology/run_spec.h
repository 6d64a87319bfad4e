#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "schedules/plan.h"
#include "stages/model_config.h"
#include "stages/optimizer.h"

namespace troupe::actors {

/// Everything that decides what a run computes and where, as plain checked values: the resolved
/// manifest's meaning. Director and workers derive the same from the same manifest text.
struct RunSpec {
  std::string name;
  std::string dir;  ///< absolute path of the run directory
  std::uint64_t seed = 0;
  std::int64_t max_steps = 0;  ///< absolute: also after a resume

  stages::ModelConfig model;
  stages::OptimizerConfig optimizer;

  struct Data {
    std::string tokens;  ///< path of the token file (TokenFile::open)
    std::string digest;  ///< of its ids (stages::scan_tokens): by which a checkpoint knows it
    std::string tokenizer = "bytes";
    bool shuffle = false;
  } data;

  struct Batch {
    std::int64_t seq_len = 0;
    std::int64_t micro = 1;
    std::int64_t global = 1;  ///< samples per step

    /// Microbatches of each of so many replicas in a step.
    int microbatches(int dp) const { return static_cast<int>(global / dp / micro); }
  } batch;

  struct Mesh {
    int pp = 1;
    int dp = 1;
    bool operator==(const Mesh&) const = default;
  } mesh;
  std::string layout;  ///< how layers are split over chunks: the text of a LayerSplit

  struct Schedule {
    std::string kind = "1f1b";
    int chunks = 1;
    std::string csv;  ///< plan text where kind is "csv"
    /// What a searched schedule is made for, one value or one a chunk (schedules::parse_costs);
    /// empty: all actions alike.
    std::string costs;
    bool operator==(const Schedule&) const = default;
  } schedule;

  struct AutoLayout {
    bool on = false;
    double gain = 0;         ///< least share of a step that makes a move worth it
    std::int64_t steps = 1;  ///< at least, from one measurement to the next
  } auto_layout;

  struct Checkpoint {
    std::int64_t interval = 0;  ///< steps; 0: only at the end
    int keep = 3;
    bool initial = false;  ///< save step 0 too
    std::string resume;    ///< directory of the checkpoint to start from; empty: fresh weights
    bool weights_only = false;
  } checkpoint;

  struct Eval {
    std::int64_t interval = 0;  ///< steps; 0: never
    std::int64_t steps = 0;     ///< global batches per evaluation
    std::string tokens;         ///< path of the token file
  } eval;

  struct Cluster {
    int threads = 1;                   ///< per rank
    std::optional<bool> pin = false;   ///< bind each rank to cores of its own; none: core_use()
    std::optional<bool> spin = false;  ///< wait for messages by polling; none: core_use()
    int cores = 0;                     ///< free ones, known to the launching process alone
    int port = 0;                      ///< control; 0 = any
  } cluster;

  /// What to do about a worker that is lost.
  enum class OnFailure {
    replace,  ///< spawn another one; shrink where that fails
    shrink,   ///< go on with fewer stages or replicas
    stop,     ///< end the run
  };
  struct Recovery {
    OnFailure on_failure = OnFailure::replace;
    int spares = 0;               ///< warm processes kept ready
    double silent_s = 3;          ///< a process that says nothing for so long is lost; 0: never
    double hang_s = 5;            ///< a runner without progress likewise, at least; 0: never
    int restarts_per_hour = 100;  ///< more: an orderly stop
    bool neighbour_copies = true;
  } recovery;

  std::int64_t log_interval = 1;

  int num_microbatches() const { return batch.microbatches(mesh.dp); }
  int num_ranks() const { return mesh.pp * mesh.dp; }
  std::int64_t global_tokens() const { return batch.global * batch.seq_len; }
};

/// How the ranks of a shape use the machine's cores.
struct CoreUse {
  bool pin = false;   ///< each is bound to cores of its own
  bool spin = false;  ///< each waits for messages by polling
  bool operator==(const CoreUse&) const = default;
};
/// What the cluster says; where it says nothing, what its free cores suffice for with so many
/// ranks: a core for each thread, and for polling one more a rank.
CoreUse core_use(const RunSpec::Cluster& cluster, std::int64_t ranks);

/// Where the run keeps the state of a step.
inline std::string checkpoint_path(const RunSpec& spec, std::int64_t step) {
  return spec.dir + "/checkpoints/step-" + std::to_string(step);
}

/// The step's plan that the spec's schedule makes, in order (schedules::in_order). The spec is
/// checked.
schedules::Plan make_plan(const RunSpec& spec);
/// Forward only, for evaluation.
schedules::Plan make_eval_plan(const RunSpec& spec);

}  // namespace troupe::actors
