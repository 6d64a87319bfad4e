#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "actors/inference/model_rank.h"
#include "launch/commands/models/rank_processes.h"
#include "stages/inference/generator.h"
#include "stages/inference/model_part.h"

// The ranks of a command that computes with a model and trains nothing. The command's own process
// is the first shard of the last stage, which has the logits and the loss; it starts the others.

namespace troupe::launch {

/// What a rank must know to have its part of a model. But for `rank` and `gpu` it is the same for
/// all of a command.
struct RankSpec {
  std::string checkpoint;  ///< its directory
  std::string device = "cpu";
  int threads = 1;  ///< of an op
  int pp = 1;
  int tp = 1;
  int rank = 0;
  int gpu = 0;  ///< which of the machine's; has no effect on a CPU

  stages::ModelPart part() const { return stages::part_of_rank(pp, tp, rank); }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankSpec, checkpoint, device, threads, pp, tp, rank, gpu)

/// One rank, in this process.
class OwnRank {
 public:
  /// `peers` is null if there is one rank, and outlives the object; `addresses` are those of all.
  OwnRank(const RankSpec& spec, actors::ModelRank* peers, std::vector<std::string> addresses);
  ~OwnRank();
  OwnRank(const OwnRank&) = delete;

  const RankSpec& spec() const { return spec_; }
  const stages::ModelPart& part() const { return part_; }
  tensor::Device& device() const { return *device_; }
  /// Connects to the others, which call it too.
  stages::PartLinks join(const actors::StageMessages& messages);
  /// How the shards of a stage sum few rows. Made by the first call, which all of them make after
  /// join().
  const transport::MadeOneShot& one_shot();

 private:
  const RankSpec spec_;
  const stages::ModelPart part_;
  actors::ModelRank* const peers_;
  const std::vector<std::string> addresses_;
  const std::unique_ptr<tensor::Device> device_;
  const transport::MadeOneShot* one_shot_ = nullptr;  ///< once it was asked for
  const transport::MadeOneShot none_{};               ///< of a rank without others
};

/// The part of the command's own process.
stages::ModelPart leading_part(int pp, int tp);

/// What UCX is told in a command of so many ranks, before it starts a thread; nothing for one.
std::optional<transport::UcxEnvironment> prepare_ranks(int ranks);

/// All ranks of a command, of which this process is one.
class LeadingRank {
 public:
  /// Starts the others and gives each its spec, and `work` of the kind `command`. `spec` lacks rank
  /// and GPU; `ucx` is what prepare_ranks() has returned. Throws Error{unavailable} if a rank
  /// cannot be started, or finds no way to the others.
  LeadingRank(RankSpec spec, const std::optional<transport::UcxEnvironment>& ucx,
              const std::string& command, const nlohmann::json& work);

  OwnRank& own() { return *own_; }
  stages::PartLinks join(const actors::StageMessages& messages);
  /// Sends each of the others an order.
  void tell(const nlohmann::json& order) {
    if (processes_) processes_->tell_all(order);
  }
  /// Calls body(), then ends the others. If what it throws is for want of another rank, throws why
  /// that was lost.
  template <typename Body>
  void run(const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      rethrow_cause(error);
    }
    if (processes_) processes_->end();
  }

 private:
  [[noreturn]] void rethrow_cause(const Error& error);

  std::optional<actors::ModelRank> peers_;
  std::optional<OwnRank> own_;
  std::optional<RankProcesses> processes_;  // ends before what its thread uses
};

}  // namespace troupe::launch
