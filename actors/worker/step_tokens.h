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
  /// `device` outlives the object.
  StepTokens(const Source& source, tensor::Device& device);

  /// Called before the first action of a step, `step` counted from 0. If one shard reads, gives
  /// every shard the tokens of the whole step, and returns the seconds that this took. Not each
  /// microbatch when its turn comes, because shards may begin the two actions of a pair in another
  /// order.
  double begin(std::int64_t step);
  /// Reads the microbatch's tokens, if the rank has a feed of its own and has not read them in this
  /// step: the device may be reading them. Called before ids() and targets() of it.
  void load(int microbatch);
  // Pinned memory that holds the microbatch's tokens until its load() in the next step.
  std::span<const std::int32_t> ids(int microbatch) const { return part(0, microbatch); }
  std::span<const std::int32_t> targets(int microbatch) const { return part(1, microbatch); }
  /// Where the microbatch stands in the data.
  stages::BatchPlace place_of(int microbatch) const;

 private:
  void read(int microbatch);
  /// All ids (which = 0) or targets (1) of a step.
  std::span<std::int32_t> all(int which) const;
  std::span<std::int32_t> part(int which, int microbatch) const;

  const Source source_;
  std::int64_t step_ = 0;
  const tensor::Buffer memory_;  // ids, then targets, of all microbatches of a step
  std::vector<char> is_loaded_;  // by microbatch, of the present step
};

}  // namespace troupe::actors
