#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/topology/layout.h"
#include "actors/topology/reports/worker_gpu.h"
#include "actors/topology/run_spec.h"
#include "stages/model/sharding.h"

namespace troupe::actors {

/// One worker process in one life. A replacement of a dead worker has a new incarnation; it may
/// have the dead one's id.
struct Member {
  /// The worker's name on the data plane for all its life, whatever its rank in each configuration.
  int id = 0;
  std::uint64_t incarnation = 0;
  int pid = 0;
  std::string host;
  std::string address;  ///< of the worker's data plane (transport::UcxNode::address)
  WorkerGpu gpu{};
};

/// Members of a configuration by rank: all, or only those with which one of them communicates.
class Members {
 public:
  void add(int rank, Member member);
  /// Adds a member at the rank after the last.
  void push_back(Member member);
  void pop_back();
  const Member& at(int rank) const { return by_rank_.at(rank); }
  const Member& back() const { return by_rank_.rbegin()->second; }
  int size() const { return static_cast<int>(by_rank_.size()); }
  /// The rank of an incarnation; -1: it is no member.
  int rank_of(std::uint64_t incarnation) const;
  /// The rank of a worker's id; -1: it is no member.
  int rank_of_id(int id) const;
  auto begin() const { return by_rank_.begin(); }
  auto end() const { return by_rank_.end(); }

 private:
  std::map<int, Member> by_rank_;
  std::map<std::uint64_t, int> ranks_;  // by incarnation
};

/// How many ranks share a host, as one of them sees it.
struct HostShare {
  int ranks = 1;  ///< on the rank's host, itself included
  int place = 0;  ///< of the rank among them, in the order of their ids
  bool operator==(const HostShare&) const = default;
};

/// What a change of the cluster changes: mesh, schedule and layers per chunk.
struct ClusterShape {
  RunSpec::Mesh mesh;
  RunSpec::Schedule schedule;
  Layout layout;

  int num_ranks() const { return mesh.num_ranks(); }
  bool operator==(const ClusterShape&) const = default;
};

/// "pp 2 x dp 1 x tp 2", or where stages differ "pp 2 (dp 2 | dp 1)".
std::string to_string(const RunSpec::Mesh& mesh);
/// A line for people: "pp 2 x dp 1, interleaved with 2 chunks a stage, layers 2,1,2,1".
std::string to_string(const ClusterShape& shape);

/// A version of the cluster without its members: what all of them are told alike.
struct ConfigurationHeader {
  std::uint64_t run = 0;  ///< random, the same in all configurations of a launch
  std::uint32_t number = 0;
  ClusterShape shape;
};

/// A version of the cluster: who takes part and who holds which layers. Everything that recovery or
/// re-scaling changes is here; all else is in the RunSpec. A value, handed to every rank before the
/// configuration starts.
struct Configuration {
  std::uint64_t run = 0;  ///< random, the same in all configurations of a launch
  std::uint32_t number = 0;
  ClusterShape shape;
  /// Members by rank; beyond the ranks are members that only give their state away and leave.
  Members members;

  int num_ranks() const { return shape.num_ranks(); }
  /// The rank of a process, its place beyond the ranks if it leaves; -1: not in this configuration.
  int rank_of(std::uint64_t incarnation) const { return members.rank_of(incarnation); }
};

/// How each rank shares its host with others of the configuration. Members that only give their
/// state away do not count.
std::vector<HostShare> host_shares(const Configuration& configuration);

/// The place of a rank in the mesh. Ranks count through the shards of a stage, then through the
/// stages that have such a replica, then through the replicas. A member beyond the ranks is in a
/// replica beyond them.
struct RankPlace {
  int replica = 0;
  int stage = 0;
  int shard = 0;
  auto operator<=>(const RankPlace&) const = default;
};
RankPlace place_of(const RunSpec::Mesh& mesh, int rank);
int rank_at(const RunSpec::Mesh& mesh, RankPlace place);
/// Whether a mesh has such a rank.
bool has_place(const RunSpec::Mesh& mesh, const RankPlace& place);
/// The first of the ranks of a replica, which follow each other.
int first_rank_of(const RunSpec::Mesh& mesh, int replica);
/// What a rank at `place` holds of its stage's layers.
stages::Sharding sharding_at(const RunSpec::Mesh& mesh, const RankPlace& place);
stages::Sharding sharding_of(const ClusterShape& shape, int rank);
/// The ranks with which the rank at `place` forms a group along an axis, in the axis's order: all
/// replicas of its shard, or all shards of its stage.
enum class Axis { dp, tp };
std::vector<int> ranks_along(const RunSpec::Mesh& mesh, RankPlace place, Axis axis);
/// "rank 3 (replica 1, stage 1)"; with more than one shard "rank 3 (replica 0, stage 1, shard 1)".
std::string name_of(const ClusterShape& shape, int rank);

/// The rank of the same replica that holds the other copy of the same layers, if the schedule has
/// two copies of the parameters; else -1.
int mirror_of(const ClusterShape& shape, int rank);

/// The shape a run starts with: layers split over the plan's chunks as the spec says.
ClusterShape first_shape(const RunSpec& spec);
/// The spec with another mesh and schedule, such as for make_plan().
RunSpec with_shape(RunSpec spec, const ClusterShape& shape);

}  // namespace troupe::actors
