#pragma once

#include <map>
#include <string>
#include <vector>

#include "launch/watch/run_now.h"

// What pictures of the mesh tell, whatever they are drawn with.

namespace troupe::launch {

enum class RankMood { starts, computes, waits, lost };
/// What a rank's state amounts to: one that is done with its part, and stands still until all
/// others are, waits, too.
RankMood mood_of(const RankNow& rank);
/// "running", or "waits for ..." with all that the rank tells of its wait. The rank that it waits
/// for comes first, because the end of a text may have no room.
std::string doing_of(const RankNow& rank);
/// "replica 0, stage 1", and the shard where there are several.
std::string place_text(const RankNow& rank, bool has_shards);
/// The share of the newest step in which the rank was busy.
double busy_share(const RankNow& rank);
/// The share of it in which the rank waited for collectives.
double collective_share(const RankNow& rank);
/// The memory that a person looks at: that of the GPU if there is one. Empty if none is known.
std::string memory_of(const RankNow& rank);

/// The shards of a stage. They point into the run's ranks, which must outlive them.
using StageRanks = std::vector<const RankNow*>;
/// The ranks by replica and stage.
using Mesh = std::map<int, std::map<int, StageRanks>>;
Mesh mesh_of(const std::vector<RankNow>& ranks);

/// What goes from the ranks of one stage to those of another, all together.
struct Flow {
  double bytes_per_s = 0;
  double wait_share = 0;  ///< of the rank that waited longest
};
Flow flow_between(const RunNow& run, const StageRanks& from, const StageRanks& to);
/// A wait that takes less of a step is not worth a word.
inline constexpr double kNoticedWait = 0.05;
/// "1.5 MiB/s".
std::string rate_text(double bytes_per_s);

}  // namespace troupe::launch
