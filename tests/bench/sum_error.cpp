// Measures the error of a sum over members that send bfloat16, in one process:
//
//   sum_error MEMBERS SEED
//
// Prints one JSON line with the errors of the product's reduction left in float32 ("float32"), of
// the same rounded once to bfloat16 ("rounded"), and of a ring that adds in bfloat16 ("ring").

#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tensor/cpu/ops/ordered_reduction.h"
#include "tensor/values/dtype.h"

namespace {

using namespace troupe;
using tensor::BFloat16;

constexpr std::size_t kElements = 1 << 14;
/// Replicas see different samples: what their gradients have in common is less than the noise.
constexpr float kCommon = 0.1f;
constexpr float kScale = 1e-3f;

/// What each member sends.
using Sent = std::vector<std::vector<BFloat16>>;

Sent gradients(std::size_t members, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> common(kElements);
  for (float& x : common) x = kCommon * normal(random);
  Sent sent(members, std::vector<BFloat16>(kElements));
  for (auto& of_member : sent)
    for (std::size_t i = 0; i < kElements; ++i)
      of_member[i] = tensor::to_bfloat16(kScale * (common[i] + normal(random)));
  return sent;
}

std::vector<double> exact_sum(const Sent& sent) {
  std::vector<double> sum(kElements);
  for (const auto& of_member : sent)
    for (std::size_t i = 0; i < kElements; ++i) sum[i] += tensor::to_float(of_member[i]);
  return sum;
}

std::vector<float> sum_in_float32(const Sent& sent) {
  std::vector<const std::byte*> parts;
  for (const auto& of_member : sent)
    parts.push_back(reinterpret_cast<const std::byte*>(of_member.data()));
  std::vector<float> sum(kElements);
  tensor::ordered_reduction_to_f32(parts, reinterpret_cast<std::byte*>(sum.data()), kElements,
                                   tensor::Reduction::sum);
  return sum;
}

std::vector<float> rounded(std::vector<float> sum) {
  for (float& x : sum) x = tensor::to_float(tensor::to_bfloat16(x));
  return sum;
}

/// A ring's reduce-scatter: what will be an owner's slice begins at the member behind the owner and
/// goes round; every member adds its own values and sends the sum on as bfloat16.
std::vector<float> sum_around_ring(const Sent& sent) {
  const std::size_t members = sent.size();
  std::vector<float> sums(kElements);
  for (std::size_t i = 0; i < kElements; ++i) {
    const std::size_t owner = i * members / kElements;
    BFloat16 sum = sent[(owner + 1) % members][i];
    for (std::size_t hop = 2; hop <= members; ++hop) {
      const float own = tensor::to_float(sent[(owner + hop) % members][i]);
      sum = tensor::to_bfloat16(tensor::to_float(sum) + own);
    }
    sums[i] = tensor::to_float(sum);
  }
  return sums;
}

/// The root mean square of the error, over that of the exact sum.
double error_of(const std::vector<float>& sum, const std::vector<double>& exact) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    error += (sum[i] - exact[i]) * (sum[i] - exact[i]);
    size += exact[i] * exact[i];
  }
  return std::sqrt(error / size);
}

void measure(std::size_t members, std::uint64_t seed) {
  const Sent sent = gradients(members, seed);
  const std::vector<double> exact = exact_sum(sent);
  const std::vector<float> sum = sum_in_float32(sent);
  fmt::print("{{\"float32\": {}, \"rounded\": {}, \"ring\": {}}}\n", error_of(sum, exact),
             error_of(rounded(sum), exact), error_of(sum_around_ring(sent), exact));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: sum_error MEMBERS SEED\n");
    return 64;
  }
  try {
    measure(std::stoul(argv[1]), std::stoull(argv[2]));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "sum_error: {}\n", error.what());
    return 70;
  }
}
