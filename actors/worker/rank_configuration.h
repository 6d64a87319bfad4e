#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/messages/enter_configuration.h"
#include "actors/topology/assembly.h"
#include "actors/topology/rank_groups.h"
#include "actors/worker/state/neighbour_copies.h"
#include "actors/worker/state/parked_state.h"
#include "actors/worker/step/plan_runner.h"
#include "actors/worker/step/token_broadcast.h"
#include "stages/corpus/token_data.h"
#include "stages/replicas/data_parallel.h"
#include "tensor/device/process_group.h"
#include "transport/collectives/changing_group.h"
#include "transport/memory/shared_pages.h"
#include "transport/ucx/sent_bytes.h"

namespace troupe::actors {

/// A stage, and how many updates are in it.
struct StageState {
  std::unique_ptr<stages::Stage> stage;  ///< null if its state is parked
  std::optional<ParkedState> parked;
  stages::StageSpec spec;
  const tensor::Device* device = nullptr;  ///< that the stage was made for
  std::int64_t step = -1;  ///< updates in the stage's state; -1: no state that can be used
  bool has_base = false;   ///< the stage has the base of an adapter, if it trains one
  /// The memory of that base, which ranks of a host share.
  std::optional<transport::SharedPages> shared_base;
};

/// The process groups that a rank is a member of, by kind.
class ProcessGroups {
 public:
  void set(GroupKind kind, std::unique_ptr<tensor::ProcessGroup> group, const std::string& name) {
    groups_[static_cast<std::size_t>(kind)] = {std::move(group), name};
  }
  /// Null if the rank has none of this kind.
  tensor::ProcessGroup* get(GroupKind kind) const {
    return groups_[static_cast<std::size_t>(kind)].group.get();
  }
  const std::string& name(GroupKind kind) const {
    return groups_[static_cast<std::size_t>(kind)].name;
  }
  /// The groups that may change to a device's own means.
  std::vector<transport::ChangingGroup*> changing() const {
    std::vector<transport::ChangingGroup*> changing;
    for (tensor::ProcessGroup* const group : all())
      if (auto* const one = dynamic_cast<transport::ChangingGroup*>(group)) changing.push_back(one);
    return changing;
  }
  std::vector<tensor::ProcessGroup*> all() const {
    std::vector<tensor::ProcessGroup*> all;
    for (const Named& named : groups_)
      if (named.group) all.push_back(named.group.get());
    return all;
  }

 private:
  struct Named {
    std::unique_ptr<tensor::ProcessGroup> group;
    std::string name;
  };
  std::array<Named, kNumGroupKinds> groups_;
};

/// Everything that a configuration decides for one rank. Members are destroyed in reverse order:
/// plan runners before what they refer to.
struct RankConfiguration {
  Configuration configuration;
  int rank = 0;
  RankAssembly part;
  std::shared_ptr<StageState>
      state;  ///< shared with the configuration before if the layers are the same
  std::vector<std::uint32_t> parameters;  // canonical numbers of the owned parameters
  std::vector<std::size_t> owned;         // indices of the owned parameters in stage->parameters()
  std::vector<double> squared_norms;
  std::unique_ptr<stages::DataFeed> feed;
  std::vector<std::unique_ptr<stages::DataFeed>> eval_feeds;  // by evaluation set; null: reads none
  ProcessGroups groups;
  GroupsState groups_state = GroupsState::none;         ///< ready is not kept, but asked for
  std::unique_ptr<stages::DataParallel> data_parallel;  ///< completes the stage's gradients
  std::optional<TokenBroadcast> tokens;  ///< [data] reader = "first-shard", on stages that read
  std::optional<NeighbourCopies> copies;
  std::optional<PlanRunner> runner;
  std::deque<PlanRunner> eval_runners;    // by evaluation set
  std::vector<std::uint64_t> edge_bytes;  // bytes sent over each edge by the end of the last step
  bool on_several_hosts = false;
  transport::SentBytes sent;    // by the end of the last step
  bool edges_told = false;      // whether it was told which edges are not peer
  bool reached_by_all = false;  // an order to compute in this configuration has come

  stages::Stage& stage() { return *state->stage; }
};

// Each configuration of the run is two configurations of the data plane: one for state moves, then
// one for training.

inline std::uint32_t moving_configuration(std::uint32_t configuration) {
  return 2 * configuration;
}
inline std::uint32_t training_configuration(std::uint32_t configuration) {
  return 2 * configuration + 1;
}

/// Makes a stage of zeros on the given device, which outlives it. The thread that builds it hands
/// it over to the compute thread.
std::shared_ptr<StageState> make_state(const stages::StageSpec& stage, tensor::Device& device);
/// The bytes of the slots of each edge from another rank to `rank` that lie in memory of the host
/// which processes share, the largest first. `device` is the rank's.
std::vector<std::size_t> slots_of(const RankAssembly& part, int rank, const tensor::Device& device,
                                  transport::EdgeChoice choice);

/// Opens the token file that the manifest names so, which is at `here` on this host.
std::unique_ptr<stages::TokenFile> open_tokens(const std::string& path, const std::string& here);
using OpenTokens = std::function<std::unique_ptr<stages::TokenFile>(const std::string& path)>;

/// Adds a rank's data feeds and plan runners to a configuration whose stage and groups are already
/// set. A configuration that only saves has no feeds: it must begin even if their files are what
/// the run failed at. `device` is the stage's.
void add_runners(RankConfiguration& now, const RunSpec& spec, const ConfigurationStart& start,
                 transport::Channel& channel, tensor::Device& device, const OpenTokens& open);

}  // namespace troupe::actors
