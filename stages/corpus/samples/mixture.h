#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::stages {

/// Which source each sample of a run comes from, by the weights of the sources: a pure function of
/// the position, computed without a memory of the positions before it. stages/corpus/README.md has
/// the formula. Const calls may run in any thread and allocate nothing.
///
/// Of the first n positions, for every n, a source of share s (its weight over the sum of all) has
/// n * s, give or take 1 + ln(k) / 2 among k sources, and n * 2^-32, to which shares are rounded.
/// Drawing each sample at random would be off by the square root of n, and could not tell how many
/// samples of a source came before a position; the greedy choice of the source that lags most
/// (Megatron-LM's blended datasets) needs a table of all positions.
class Mixture {
 public:
  /// A sample of the run: sample `number`, counted on over all epochs, of the source.
  struct Draw {
    int source = 0;
    std::int64_t number = 0;
    bool operator==(const Draw&) const = default;
  };
  /// At least one weight, each above 0 and finite.
  explicit Mixture(std::span<const double> weights);
  /// Needs position >= 0. Takes time in proportion to the number of sources.
  Draw operator[](std::int64_t position) const;

 private:
  /// A source's part of the positions that the splits before it leave.
  struct Split {
    int source = 0;
    std::uint64_t part = 0;  ///< in units of 2^-32
  };
  std::vector<Split> splits_;  // the largest weight first; the last split takes all that is left
};

}  // namespace troupe::stages
