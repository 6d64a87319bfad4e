#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "actors/topology/configuration.h"
#include "transport/wire/edge.h"

namespace troupe::actors {

/// Elements of a microbatch's tensor between two stages, counted through all replicas: those of the
/// first one's tokens, then those of the second one's, and so on.
struct ElementSpan {
  std::int64_t first = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - first; }
  bool operator==(const ElementSpan&) const = default;
};

/// The elements that the rank at `place` sends or receives: its shard's slice of its replica's.
ElementSpan elements_at(const RunSpec& spec, const RunSpec::Mesh& mesh, const RankPlace& place);

/// The ranks of two stages that have elements in common, each pair as one of `stage` and one of
/// `next`.
std::vector<std::pair<int, int>> ranks_that_meet(const RunSpec::Mesh& mesh, int stage, int next);

/// What the rows of a lane of packed documents are a multiple of where all lanes of a microbatch
/// have as many (stages::FeedSpec::lanes_alike); 0: each has its own. They are alike where stages
/// of different width have shards, which so have the same part of the rows in each microbatch, or
/// dropout, which so finds the place of a row in the step.
int row_multiple_of(const RunSpec& spec, const RunSpec::Mesh& mesh);

/// The equal parts of a rank's slice of a tensor between stages, of which each edge of any stage
/// has some whole ones.
int pieces_of(const RunSpec::Mesh& mesh, int stage);

/// Where two chunks meet whose stages send each other tensors.
struct Boundary {
  int from_stage = 0;
  int to_stage = 0;
  int chunk = 0;  ///< that receives
  transport::Direction direction = transport::Direction::forward;
  int slots = 1;
};

/// The edges over a boundary of which one end is the rank at `place`, in the order of their
/// elements. Between stages of equal width it is one, to the same replica and shard. Else a rank is
/// sent its elements by those that have them, each once: by several, one after the other, or as a
/// part of what one has. The pieces of such edges count elements.
std::vector<transport::Edge> edges_over(const Boundary& boundary, const RunSpec& spec,
                                        const RunSpec::Mesh& mesh, const RankPlace& place);

}  // namespace troupe::actors
