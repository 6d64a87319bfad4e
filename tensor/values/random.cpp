#include "tensor/values/random.h"

#include <Random123/philox.h>

#include <cmath>
#include <numbers>

namespace troupe::tensor {
namespace {

using Block = r123::Philox4x32::ctr_type;

std::uint32_t low(std::uint64_t x) {
  return static_cast<std::uint32_t>(x);
}
std::uint32_t high(std::uint64_t x) {
  return static_cast<std::uint32_t>(x >> 32);
}
std::uint64_t join(std::uint32_t lower, std::uint32_t upper) {
  return std::uint64_t{upper} << 32 | lower;
}

/// FNV-1a with 64 bits. It must not change, because the initial weights that a seed gives depend on
/// it.
std::uint64_t hash(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

Block block_at(std::uint64_t key, std::uint64_t counter) {
  return r123::Philox4x32{}({{low(counter), high(counter), 0, 0}}, {{low(key), high(key)}});
}

double to_uniform(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

double to_normal(const Block& block) {
  const double u =
      1.0 - to_uniform(join(block[0], block[1]));  // in (0, 1], so that its logarithm is finite
  const double v = to_uniform(join(block[2], block[3]));
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace

Random::Random(std::uint64_t seed, std::string_view name) : key_(mix64(mix64(seed) + hash(name))) {}

Random Random::part(std::uint64_t number) const {
  return Random(mix64(key_ + (number + 1) * 0x9e3779b97f4a7c15));
}

std::uint64_t Random::bits(std::uint64_t index) const {
  const Block block = block_at(key_, index / 2);
  return index % 2 == 0 ? join(block[0], block[1]) : join(block[2], block[3]);
}

std::uint32_t Random::word(std::uint64_t index) const {
  return block_at(key_, index / 4)[index % 4];
}

double Random::uniform(std::uint64_t index) const {
  return to_uniform(bits(index));
}

double Random::normal(std::uint64_t index) const {
  return to_normal(block_at(key_, index));
}

double xavier_bound(std::int64_t fan_in, std::int64_t fan_out) {
  return std::sqrt(6.0 / static_cast<double>(fan_in + fan_out));
}

}  // namespace troupe::tensor
