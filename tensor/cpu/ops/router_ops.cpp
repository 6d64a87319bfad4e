#include <algorithm>
#include <bit>
#include <cmath>

#include "tensor/cpu/loops/parallel.h"
#include "tensor/cpu/ops/cpu_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/ops/router_ops.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/loops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

/// probs = softmax(logits) of `count` elements, in place too. Returns the logarithm of the sum of
/// e^logits.
HWY_INLINE float softmax(const float* logits, std::int64_t count, float* probs) {
  const float max = max_of(logits, count);
  auto sums = zero();
  for_each_vector(count, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
    const auto e = exp(hn::Sub(load(logits + i, n), constant(max)));
    store(e, probs + i, n);
    sums = hn::Add(sums, first_n(e, n));
  });
  const float sum = sum_of_lanes(sums);
  for_each_vector(count, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
    store(hn::Div(load(probs + i, n), constant(sum)), probs + i, n);
  });
  return max + std::log(sum);
}

void softmax_rows(const Tensor& logits, const Tensor& probs, const Tensor& lse, std::int64_t begin,
                  std::int64_t end) {
  const std::int64_t experts = probs.shape[1];
  for (std::int64_t t = begin; t < end; ++t) {
    const float sum =
        softmax(logits.as<float>() + t * experts, experts, probs.as<float>() + t * experts);
    if (lse) lse.as<float>()[t] = sum;
  }
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::tensor {
namespace {

constexpr std::int64_t kTokenGrain = 8;
constexpr std::int64_t kColumns = 16;  // whose sums over tokens are added at a time

HWY_EXPORT(softmax_rows);

/// A number that orders probabilities as they are, with NaNs above all.
std::uint32_t key_of(float probability) {
  return std::bit_cast<std::uint32_t>(probability);
}

/// The indices of the `count` largest of p[experts], of equal ones the lower, ascending.
void choose(const float* p, std::int64_t experts, std::int64_t count, std::int32_t* chosen) {
  std::int64_t have = 0;
  for (std::int64_t e = 0; e < experts; ++e) {
    const std::uint32_t key = key_of(p[e]);
    if (have == count && key <= key_of(p[chosen[count - 1]])) continue;
    std::int64_t place = have < count ? have++ : count - 1;
    for (; place > 0 && key > key_of(p[chosen[place - 1]]); --place)
      chosen[place] = chosen[place - 1];
    chosen[place] = static_cast<std::int32_t>(e);
  }
  std::sort(chosen, chosen + count);
}

/// The sum of the probabilities that a token's weights are divided by.
float divisor_of(const float* p, const std::int32_t* chosen, const RouterShape& router) {
  if (!router.normalizes) return 1;
  float sum = 0;
  for (std::int64_t k = 0; k < router.chosen; ++k) sum += p[chosen[k]];
  return sum;
}

void choose_rows(const RouterShape& router, const Tensor& probs, const Tensor& chosen,
                 const Tensor& weights, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t) {
    const float* const p = probs.as<float>() + t * router.experts;
    std::int32_t* const own = chosen.as<std::int32_t>() + t * router.chosen;
    choose(p, router.experts, router.chosen, own);
    const float divisor = divisor_of(p, own, router);
    for (std::int64_t k = 0; k < router.chosen; ++k)
      weights.as<float>()[t * router.chosen + k] = p[own[k]] / divisor;
  }
}

bool counts(const Tensor& counted, std::int64_t t) {
  return !counted || counted.as<std::int32_t>()[t] != 0;
}

/// One token of route_backward(): its rows of all tensors.
struct TokenGradient {
  const float* p;
  const std::int32_t* chosen;
  const float* weights;
  const float* dweights;
  const float* balance;  ///< null: none
  float z;               ///< the gradient of lse
};

/// d logits_e = p_e (dp_e - sum p dp + dlse), where dp is that of the weights and of the balance.
void softmax_backward(const TokenGradient& token, const RouterShape& router, float* dlogits) {
  const float divisor = divisor_of(token.p, token.chosen, router);
  float dot = 0;  // through the division by the sum
  for (std::int64_t k = 0; k < router.chosen && router.normalizes; ++k)
    dot += token.dweights[k] * token.weights[k];
  const auto chosen_gradient = [&](std::int64_t k) { return (token.dweights[k] - dot) / divisor; };
  float sum = 0;
  for (std::int64_t k = 0; k < router.chosen; ++k)
    sum += token.p[token.chosen[k]] * chosen_gradient(k);
  for (std::int64_t e = 0; e < router.experts && token.balance; ++e)
    sum += token.p[e] * token.balance[e];
  const float common = token.z - sum;
  for (std::int64_t e = 0, k = 0; e < router.experts; ++e) {
    float gradient = common + (token.balance ? token.balance[e] : 0);
    if (k < router.chosen && token.chosen[k] == e) gradient += chosen_gradient(k++);
    dlogits[e] = token.p[e] * gradient;
  }
}

/// The sums over the tokens that count of the columns [begin, end) of probs, as means.
void mean_columns(const Tensor& probs, const Tensor& counted, double tokens, float* means,
                  std::int64_t begin, std::int64_t end) {
  const std::int64_t experts = probs.shape[1];
  for (std::int64_t first = begin; first < end; first += kColumns) {
    const std::int64_t width = std::min(kColumns, end - first);
    double sums[kColumns] = {};
    for (std::int64_t t = 0; t < probs.shape[0]; ++t) {
      if (!counts(counted, t)) continue;
      const float* const p = probs.as<float>() + t * experts + first;
      for (std::int64_t e = 0; e < width; ++e) sums[e] += static_cast<double>(p[e]);
    }
    for (std::int64_t e = 0; e < width; ++e)
      means[first + e] = static_cast<float>(sums[e] / tokens);
  }
}

/// -sum p ln p of a row; what is 0 adds nothing.
double entropy_of(const float* p, std::int64_t experts) {
  double sum = 0;
  for (std::int64_t e = 0; e < experts; ++e)
    if (p[e] != 0) sum -= static_cast<double>(p[e] * std::log(p[e]));
  return sum;
}

}  // namespace

void CpuOps::run_route(Stream&, const Tensor& logits, const RouterShape& router,
                       const Tensor& probs, const Tensor& chosen, const Tensor& weights,
                       const Tensor& lse) {
  call_for_ranges(threads_, probs.shape[0], kTokenGrain, HWY_DYNAMIC_DISPATCH(softmax_rows), logits,
                  probs, lse);
  call_for_ranges(threads_, probs.shape[0], kTokenGrain, choose_rows, router, probs, chosen,
                  weights);
}

void CpuOps::run_route_backward(Stream&, const Tensor& probs, const Tensor& chosen,
                                const Tensor& weights, const Tensor& dweights,
                                const RouterShape& router, const RouterLosses& losses,
                                const Tensor& dlogits) {
  const auto rows = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const bool has_losses = counts(losses.counted, t);
      const TokenGradient token{
          .p = probs.as<float>() + t * router.experts,
          .chosen = chosen.as<std::int32_t>() + t * router.chosen,
          .weights = weights.as<float>() + t * router.chosen,
          .dweights = dweights.as<float>() + t * router.chosen,
          .balance = has_losses ? losses.balance.as<float>() : nullptr,
          .z = has_losses && losses.z != 0 ? losses.z * losses.lse.as<float>()[t] : 0};
      softmax_backward(token, router, dlogits.as<float>() + t * router.experts);
    }
  };
  parallel_ranges(threads_, probs.shape[0], kTokenGrain, rows);
}

void CpuOps::run_router_load(Stream&, const Tensor& probs, const Tensor& chosen, const Tensor& lse,
                             const Tensor& counted, const Tensor& load) {
  const std::int64_t tokens = probs.shape[0], experts = probs.shape[1], each = chosen.shape[1];
  float* const to = load.as<float>();
  std::fill_n(to, 2 * experts + 3, 0.0f);
  double number = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    if (!counts(counted, t)) continue;
    ++number;
    for (std::int64_t k = 0; k < each; ++k) to[chosen.as<std::int32_t>()[t * each + k]] += 1;
  }
  if (number == 0) return;
  for (std::int64_t e = 0; e < experts; ++e)
    to[e] = static_cast<float>(static_cast<double>(to[e]) / number);
  call_for_ranges(threads_, experts, kColumns, mean_columns, probs, counted, number, to + experts);
  const auto mean_of = [&](const auto& value_of) {
    const auto sum_of = [&](std::int64_t begin, std::int64_t end) {
      double sum = 0;
      for (std::int64_t t = begin; t < end; ++t)
        if (counts(counted, t)) sum += value_of(t);
      return sum;
    };
    return static_cast<float>(parallel_sum(threads_, tokens, sum_of) / number);
  };
  to[2 * experts] =
      mean_of([&](std::int64_t t) { return entropy_of(probs.as<float>() + t * experts, experts); });
  double balance = 0;
  for (std::int64_t e = 0; e < experts; ++e)
    balance += static_cast<double>(to[e]) * static_cast<double>(to[experts + e]);
  to[2 * experts + 2] = static_cast<float>(static_cast<double>(experts) * balance);
  if (!lse) return;
  to[2 * experts + 1] = mean_of([&](std::int64_t t) {
    const auto value = static_cast<double>(lse.as<float>()[t]);
    return value * value;
  });
}

}  // namespace troupe::tensor
#endif
