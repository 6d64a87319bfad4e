#include "stages/corpus/samples/shuffle.h"

#include "tensor/values/random.h"

namespace troupe::stages {
namespace {

constexpr int kRounds = 8;
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

/// The smallest h with 4^h >= num_samples, at least 1.
int half_bits(std::int64_t num_samples) {
  int bits = 1;
  while (bits < 31 && (std::int64_t{1} << (2 * bits)) < num_samples) ++bits;
  return bits;
}

}  // namespace

std::int64_t shuffled(std::uint64_t seed, std::int64_t epoch, std::int64_t num_samples,
                      std::int64_t n) {
  const int bits = half_bits(num_samples);
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  const std::uint64_t key =
      tensor::mix64(tensor::mix64(seed + kGolden) + static_cast<std::uint64_t>(epoch) + kGolden);
  // A Feistel network permutes 0 ... 4^bits-1; walking along its cycle until the value is a sample
  // again permutes those below num_samples.
  auto value = static_cast<std::uint64_t>(n);
  do {
    std::uint64_t left = value >> bits, right = value & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t next = left ^ (tensor::mix64(tensor::mix64(key + round) + right) & mask);
      left = right;
      right = next;
    }
    value = left << bits | right;
  } while (value >= static_cast<std::uint64_t>(num_samples));
  return static_cast<std::int64_t>(value);
}

}  // namespace troupe::stages
