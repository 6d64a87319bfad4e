#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stages/stage/buckets.h"
#include "stages/stage/gradient_pieces.h"

namespace troupe::stages {

/// How the replicas of a stage divide its training state: each keeps the moments of a slice of
/// every bucket, and updates the weights there.
struct StateSharding {
  int count = 1;  ///< replicas that divide it; 1: each keeps all of it
  int index = 0;  ///< which of them this one is
  BucketRule buckets{};
  bool twins = false;  ///< each keeps, and updates, the slices of twin() too
  /// Whether it keeps the gradients of its slices alone, to which those of every microbatch are
  /// added.
  bool gradients = false;
  bool weights = false;  ///< whether it keeps the weights of its slices alone
  /// With divided weights: buckets that are gathered ahead of the one that is computed with, and
  /// whether each is given up after its forward, and gathered again for its backward.
  int prefetch = 1;
  bool reshards = true;
  /// Sharding::ep. It divides `count`: the matrices of an expert are divided among the count / ep
  /// replicas that hold them.
  int ep = 1;
  /// The replica whose slices it keeps too; -1: none. That holds the same experts.
  int twin() const { return twins ? (index + count - ep) % count : -1; }
  /// How many divide a parameter, and which of them a replica is. `is_expert`: of an expert.
  int count_of(bool is_expert) const { return is_expert ? count / ep : count; }
  int slice_of(int replica, bool is_expert) const { return is_expert ? replica / ep : replica; }
  bool operator==(const StateSharding&) const = default;
};

/// A replica's part of a bucket, maybe empty. Padding belongs to what precedes it.
struct Slice {
  PieceRange pieces;
  std::int64_t begin = 0;  ///< elements of the stage's layout
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

/// The slice of replica `index` if `count` replicas divide a bucket. Cuts lie between pieces (all
/// those of the stage), as evenly as these allow: half a piece from the even cut at most.
Slice slice_of(const Bucket& bucket, std::span<const GradientPiece> pieces, int count, int index);

/// The slices of all replicas.
std::vector<Slice> cut_into_slices(const Bucket& bucket, std::span<const GradientPiece> pieces,
                                   int count);

/// Where the rows of each parameter are cut among `count` replicas: replica i keeps the rows from
/// cuts[i] to cuts[i + 1] of the parameter's tensors, count + 1 numbers for each parameter. The
/// parameters have these shapes, begin at `offsets` and are cut into `pieces`.
std::vector<std::vector<std::int64_t>> cut_rows(std::span<const tensor::Shape> shapes,
                                                std::span<const std::int64_t> offsets,
                                                std::span<const Bucket> buckets,
                                                std::span<const GradientPiece> pieces, int count);

}  // namespace troupe::stages
