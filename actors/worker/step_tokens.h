#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stages/stage.h"
#include "stages/token_data.h"

namespace troupe::actors {

class TokenBroadcast;

/// The tokens of a rank's microbatches, read by the rank itself or by the first shard of its stage.
/// Used by the compute thread alone. Allocates nothing after construction.
class StepTokens {
 public:
  /// What is pointed to outlives this object.
  struct Source {
    /// Null on a rank that reads nothing: it has no use of tokens, or receives them.
    const stages::DataFeed* feed = nullptr;
    /// Shares the tokens that one shard's feed reads; null if every shard has a feed.
    TokenBroadcast* broadcast = nullptr;
    int replica = 0;
    std::int64_t tokens = 0;   ///< number of tokens in a microbatch
    std::int64_t samples = 1;  ///< number of samples in a microbatch
    int num_microbatches = 0;
  };
  explicit StepTokens(const Source& source);

  /// Called before the first action of a step, `step` counted from 0. If one shard reads, gives
  /// every shard the tokens of the whole step, and returns the seconds that this took. Not each
  /// microbatch when its turn comes, because shards may begin the two actions of a pair in another
  /// order.
  double begin(std::int64_t step);
  /// Makes the microbatch's tokens those of ids() and targets(). Called by a rank that has a feed
  /// or receives tokens.
  void load(int microbatch);
  std::span<const std::int32_t> ids(int microbatch) { return part(ids_, microbatch); }
  std::span<const std::int32_t> targets(int microbatch) { return part(targets_, microbatch); }
  /// Where the microbatch stands in the data.
  stages::BatchPlace place_of(int microbatch) const;

 private:
  std::span<std::int32_t> part(std::vector<std::int32_t>& tokens, int microbatch) const;

  const Source source_;
  std::int64_t step_ = 0;
  std::vector<std::int32_t> ids_, targets_;  // of a microbatch, or, if one shard reads, of a step
};

}  // namespace troupe::actors
