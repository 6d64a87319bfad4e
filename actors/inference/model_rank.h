#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "actors/inference/stage_edges.h"
#include "tensor/device/process_group.h"
#include "transport/collectives/one_shot_members.h"
#include "transport/node/ucx_node.h"

namespace troupe::actors {

/// What one process among those that share a model reaches the others by. It trains nothing, so
/// there is no director and no second configuration: when one process is lost, all end.
class ModelRank {
 public:
  /// `ucx` is the result of transport::prepare_ucx at the program's start. Throws
  /// Error{unavailable} if there is no way to others.
  explicit ModelRank(const transport::UcxEnvironment& ucx);
  ~ModelRank();

  /// By which the others reach this process.
  std::string address() const { return node_->address(); }
  /// Connects to the others, whose addresses stand in the order of ranks, this one's too. The
  /// device outlives leave().
  void join(const stages::ModelPart& part, std::span<const std::string> addresses,
            tensor::Device& device, const StageMessages& messages);

  /// Lets shards sum few rows in each other's memory, where their devices can; what it returns is
  /// valid until leave(). All shards of a stage call it after join(), and before the first
  /// collective. Waits for the others, so that abort() should be at hand.
  const transport::MadeOneShot& make_one_shot(tensor::Device& device);

  /// Ends all ways to others, before the device ends. No collective may be under way, and nothing
  /// is called afterwards.
  void leave();

  /// The shards of the stage; null: there is one. Valid from join() to leave(), as
  /// stages().
  tensor::ProcessGroup* shards() { return shards_.get(); }
  /// The stages beside this one; null: there is one.
  StageEdges* stages() { return edges_ ? &*edges_ : nullptr; }

  /// Ends every wait, now and later, with an Error{unavailable} that holds the reason. Callable
  /// from any thread between join() and leave().
  void abort(const std::string& reason);

 private:
  std::unique_ptr<transport::UcxNode> node_;
  std::unique_ptr<tensor::ProcessGroup> shards_;
  tensor::ProcessGroup* hosts_ = nullptr;  ///< the group of hosts in shards_
  std::mutex mutex_;                       // guards one_shot_, when it changes, and reason_
  transport::MadeOneShot one_shot_;
  std::string reason_;  ///< of an abort
  std::optional<StageEdges> edges_;
};

}  // namespace troupe::actors
