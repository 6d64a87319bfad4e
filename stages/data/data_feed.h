#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "stages/data/token_file.h"

namespace troupe::stages {

/// Which samples a step uses. replicas * micro divides global.
struct FeedSpec {
  std::int64_t seq_len = 0;
  std::int64_t micro = 1;
  std::int64_t global = 1;  ///< samples per step, over all replicas
  int replicas = 1;
  bool shuffle = false;
  std::uint64_t seed = 0;
  std::int64_t vocab_size = 0;  ///< every id must be below it
  /// Added to every sample's number. Not 0 after a resume with another batch size, because its
  /// steps count on from the sample that the checkpoint names.
  std::int64_t origin = 0;
};

/// Microbatches as a pure function of (step, replica, microbatch): sample n is tokens [n*S, n*S+S),
/// its targets one further; step k (from 0) holds samples origin + k*G ... origin + k*G+G-1 modulo
/// the number of samples; replica d takes the d-th contiguous G/D of them, its microbatch j the
/// j-th contiguous `micro`. The shuffled order is in stages/README.md. Const calls may run in any
/// thread and allocate nothing.
class DataFeed {
 public:
  /// Throws Error{data} if the tokens do not make one sample.
  DataFeed(std::unique_ptr<TokenFile> tokens, const FeedSpec& spec);
  ~DataFeed();
  std::int64_t num_samples() const;
  /// Fills ids and targets, each [micro * seq_len]. Throws Error{data} for a token that is not
  /// below vocab_size.
  void microbatch(std::int64_t step, int replica, int microbatch, std::span<std::int32_t> ids,
                  std::span<std::int32_t> targets) const;

 private:
  void sample(std::int64_t n, std::span<std::int32_t> ids, std::span<std::int32_t> targets) const;

  std::unique_ptr<TokenFile> tokens_;
  FeedSpec spec_;
};

}  // namespace troupe::stages
