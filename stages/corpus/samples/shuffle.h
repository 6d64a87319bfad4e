#pragma once

#include <cstdint>

namespace troupe::stages {

/// Where position n stands in the order of a data epoch: a permutation of 0 ... num_samples-1 that
/// is a pure function of (seed, epoch), computed without memory. stages/corpus/README.md has the
/// formula. Needs 0 <= n < num_samples.
std::int64_t shuffled(std::uint64_t seed, std::int64_t epoch, std::int64_t num_samples,
                      std::int64_t n);

}  // namespace troupe::stages
