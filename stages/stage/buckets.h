#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::stages {

/// Consecutive parameters of Stage::parameters(), by number.
struct ParameterRange {
  int first = 0;
  int end = 0;  ///< one past the last
};

/// A run of a stage's gradients that is reduced at once: whole parameters, with the padding behind
/// each.
struct Bucket {
  ParameterRange parameters;
  std::int64_t begin = 0;  ///< elements of the stage's layout
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

/// How many parameters share a bucket. At most one of the two is given, the other is 0. Without
/// either, buckets reach from one Seam::cut to the next.
struct BucketRule {
  std::int64_t size = 0;  ///< elements with which a bucket is full, at least 1
  int count = 0;  ///< buckets of about equal size; a stage with fewer parameters has one for each
  bool operator==(const BucketRule&) const = default;
};

/// Whether a bucket begins with a parameter: as the rule says, never, or in any case.
enum class Seam { free, joined, cut };

/// A cut wherever matrices of experts (Parameter::is_expert) begin or end; empty if there are none.
std::vector<Seam> expert_seams(const std::vector<bool>& is_expert);

/// Cuts a stage's gradients of `size` elements, of parameters that begin at `offsets`, ascending
/// from 0, the same for those of no elements and what follows them. No bucket is empty. Buckets are
/// numbered from the end of the layout, because backwards mostly end there
/// first. They depend on the stage's parameters and the rule alone, not on the number of replicas.
/// `seams`, by parameter: empty, or where the rule must not or need not decide.
std::vector<Bucket> cut_into_buckets(std::span<const std::int64_t> offsets, std::int64_t size,
                                     const BucketRule& rule, std::span<const Seam> seams = {});

}  // namespace troupe::stages
