#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/tensor/routed.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(router_ops_test)

namespace {

/// Routers of all kinds, with numbers of tokens.
const std::vector<std::pair<std::int64_t, RouterShape>> kRouters = {
    {1, {.experts = 1, .chosen = 1}},
    {7, {.experts = 4, .chosen = 2}},
    {50, {.experts = 8, .chosen = 2, .normalizes = false}},
    {33, {.experts = 33, .chosen = 5}},
    {20, {.experts = 128, .chosen = 8}},
    {5, {.experts = 6, .chosen = 6}}};

double log_sum(const double* z, std::size_t count) {
  const double most = *std::max_element(z, z + count);
  double sum = 0;
  for (std::size_t e = 0; e < count; ++e) sum += std::exp(z[e] - most);
  return most + std::log(sum);
}

/// The indices of the largest, of equal ones the lower, ascending.
Ints largest(const double* p, const RouterShape& router) {
  Ints order(static_cast<std::size_t>(router.experts));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) { return p[a] > p[b]; });
  order.resize(static_cast<std::size_t>(router.chosen));
  std::ranges::sort(order);
  return order;
}

BOOST_AUTO_TEST_CASE(a_router_chooses_the_largest_and_weights_them) {
  for_each_setup([](DType, Host& host) {
    for (const auto& [tokens, router] : kRouters) {
      const Routed r(host, tokens, router);
      const auto experts = static_cast<std::size_t>(router.experts);
      const auto each = static_cast<std::size_t>(router.chosen);
      const Values logits = Host::read(r.logits), probs = Host::read(r.probs);
      const Ints chosen = ints_of(r.chosen);
      Values expected(probs.size()), weights(chosen.size()), lse;
      for (std::size_t t = 0; t < static_cast<std::size_t>(tokens); ++t) {
        lse.push_back(log_sum(&logits[t * experts], experts));
        for (std::size_t e = 0; e < experts; ++e)
          expected[t * experts + e] = std::exp(logits[t * experts + e] - lse[t]);
        // By the op's own numbers, of which rounding may have made two equal.
        const Ints own = largest(&probs[t * experts], router);
        double sum = router.normalizes ? 0 : 1;
        for (std::size_t k = 0; k < each; ++k) {
          BOOST_TEST(chosen[t * each + k] == own[k]);
          const double p = expected[t * experts + static_cast<std::size_t>(own[k])];
          weights[t * each + k] = p;
          if (router.normalizes) sum += p;
        }
        for (std::size_t k = 0; k < each; ++k) weights[t * each + k] /= sum;
      }
      check_near(r.probs, expected, 1e-6);
      check_near(r.weights, weights, 1e-6);
      check_near(r.lse, lse, 1e-6);
      const Tensor again = host.of(DType::f32, {tokens, router.experts}, logits);
      const Tensor chosen_again = host.output(DType::i32, r.chosen.shape);
      const Tensor weights_again = host.output(DType::f32, r.weights.shape);
      host.ops().route(host.stream(), again, router, again, chosen_again, weights_again);
      BOOST_TEST(same_bits(again, r.probs));
      BOOST_TEST(same_bits(chosen_again, r.chosen));
      BOOST_TEST(same_bits(weights_again, r.weights));
    }
  });
}

BOOST_AUTO_TEST_CASE(of_equal_probabilities_the_lower_index_is_chosen) {
  for_each_setup([](DType, Host& host) {
    const RouterShape router{.experts = 40, .chosen = 3};
    Values logits(3 * 40, -1.0);
    for (const std::size_t e : {5, 9, 20, 35}) logits[e] = 2;  // four share the first place
    for (const std::size_t e : {39, 38}) logits[40 + e] = 2;   // two, then the rest are equal
    const Routed r(host, 3, router, host.of(DType::f32, {3, 40}, logits));
    BOOST_TEST(ints_of(r.chosen) == (Ints{5, 9, 20, 0, 38, 39, 0, 1, 2}),
               boost::test_tools::per_element());
    const Values weights = Host::read(r.weights);
    for (const std::size_t k : {0, 1, 2, 6, 7, 8})
      BOOST_TEST(std::abs(weights[k] - 1.0 / 3) < 1e-6);
  });
}

BOOST_AUTO_TEST_CASE(a_token_without_numbers_still_has_experts) {
  for_each_setup([](DType, Host& host) {
    const RouterShape router{.experts = 5, .chosen = 2};
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const Tensor logits = host.of(DType::f32, {2, 5}, {0, 1, nan, 3, 4, 0, 1, 2, 3, 4});
    const Routed r(host, 2, router, logits);
    const Ints chosen = ints_of(r.chosen);
    for (const std::size_t first : {0u, 2u}) {
      BOOST_TEST(chosen[first] >= 0);
      BOOST_TEST(chosen[first] < chosen[first + 1]);
      BOOST_TEST(chosen[first + 1] < 5);
    }
    const Values weights = Host::read(r.weights);
    BOOST_TEST(std::isnan(weights[0]));
    BOOST_TEST(std::abs(weights[2] + weights[3] - 1) < 1e-6);  // nothing of it in another token
  });
}

/// What a router's gradient is that of, for one token's logits: its weights times dweights, the
/// losses if it counts. The choice stays.
struct Objective {
  RouterShape router;
  Ints chosen;
  Values dweights, balance;
  double z = 0;
  bool counts = true;

  double operator()(const Values& logits) const {
    const double lse = log_sum(logits.data(), logits.size());
    const auto p = [&](std::size_t e) { return std::exp(logits[e] - lse); };
    double sum = 0, value = 0;
    for (const std::int32_t e : chosen) sum += p(static_cast<std::size_t>(e));
    for (std::size_t k = 0; k < chosen.size(); ++k)
      value += dweights[k] * p(static_cast<std::size_t>(chosen[k])) / (router.normalizes ? sum : 1);
    for (std::size_t e = 0; e < balance.size() && counts; ++e) value += balance[e] * p(e);
    return value + (counts ? z * lse * lse / 2 : 0);
  }
  double slope(Values logits, std::size_t e) const {
    constexpr double kStep = 1e-5;
    const double at = logits[e];
    logits[e] = at + kStep;
    const double above = (*this)(logits);
    logits[e] = at - kStep;
    return (above - (*this)(logits)) / (2 * kStep);
  }
};

Values slice(const Values& x, std::size_t first, std::size_t count) {
  const auto begin = x.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

BOOST_AUTO_TEST_CASE(the_gradient_of_a_router_is_the_slope_of_what_it_gives) {
  for_each_setup([](DType, Host& host) {
    for (const auto& [tokens, router] : kRouters) {
      const Routed r(host, tokens, router);
      const auto experts = static_cast<std::size_t>(router.experts);
      const auto each = static_cast<std::size_t>(router.chosen);
      const Tensor dweights = host.normal(DType::f32, {tokens, router.chosen}, "dweights");
      const Tensor balance = host.normal(DType::f32, {router.experts}, "balance");
      Ints counts(static_cast<std::size_t>(tokens));
      for (std::size_t t = 0; t < counts.size(); ++t) counts[t] = t % 3 != 1;
      const RouterLosses all{
          .balance = balance, .lse = r.lse, .z = 0.3f, .counted = host.ids(counts)};
      for (const RouterLosses& losses : {RouterLosses{}, RouterLosses{.balance = balance}, all}) {
        const Tensor dlogits = host.output(DType::f32, {tokens, router.experts});
        host.ops().route_backward(host.stream(), r.probs, r.chosen, r.weights, dweights, router,
                                  losses, dlogits);
        Objective objective{.router = router, .z = static_cast<double>(losses.z)};
        if (losses.balance) objective.balance = Host::read(balance);
        const Values logits = Host::read(r.logits), gradient = Host::read(dweights);
        const Ints chosen = ints_of(r.chosen);
        Values expected;
        for (std::size_t t = 0; t < counts.size(); ++t) {
          objective.counts = !losses.counted || counts[t] != 0;
          objective.chosen.assign(&chosen[t * each], &chosen[t * each] + each);
          objective.dweights = slice(gradient, t * each, each);
          for (std::size_t e = 0; e < experts; ++e)
            expected.push_back(objective.slope(slice(logits, t * experts, experts), e));
        }
        if (router.chosen == router.experts && router.chosen == 1 && losses.z == 0) continue;  // 0
        check_near(dlogits, expected, 4e-6);
        const Tensor copy = host.of(DType::f32, r.probs.shape, Host::read(r.probs));
        host.ops().route_backward(host.stream(), copy, r.chosen, r.weights, dweights, router,
                                  losses, copy);
        BOOST_TEST(same_bits(copy, dlogits));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(the_load_of_a_router_is_of_the_tokens_that_count) {
  for_each_setup([](DType, Host& host) {
    for (const auto& [tokens, router] : kRouters) {
      const Routed r(host, tokens, router);
      const auto experts = static_cast<std::size_t>(router.experts);
      const auto each = static_cast<std::size_t>(router.chosen);
      const Values probs = Host::read(r.probs), lse = Host::read(r.lse);
      const Ints chosen = ints_of(r.chosen);
      for (const int every : {1, 3, 1000}) {  // 1: all tokens count, without saying so
        Ints counts(static_cast<std::size_t>(tokens));
        for (std::size_t t = 0; t < counts.size(); ++t) counts[t] = (t + 1) % every == 0;
        const double number = std::accumulate(counts.begin(), counts.end(), 0.0);
        Values expected(2 * experts + 3);
        for (std::size_t t = 0; t < counts.size(); ++t) {
          if (counts[t] == 0) continue;
          for (std::size_t k = 0; k < each; ++k)
            expected[static_cast<std::size_t>(chosen[t * each + k])] += 1 / number;
          for (std::size_t e = 0; e < experts; ++e) {
            const double p = probs[t * experts + e];
            expected[experts + e] += p / number;
            if (p > 0) expected[2 * experts] -= p * std::log(p) / number;
          }
          expected[2 * experts + 1] += lse[t] * lse[t] / number;
        }
        for (std::size_t e = 0; e < experts; ++e)
          expected[2 * experts + 2] +=
              static_cast<double>(experts) * expected[e] * expected[experts + e];
        const Tensor load = host.output(DType::f32, {2 * router.experts + 3});
        host.ops().router_load(host.stream(), r.probs, r.chosen, r.lse,
                               every == 1 ? Tensor() : host.ids(counts), load);
        check_near(load, expected, 1e-6);
      }
      const Tensor load = host.output(DType::f32, {2 * router.experts + 3});
      host.ops().router_load(host.stream(), r.probs, r.chosen, {}, {}, load);
      BOOST_TEST(Host::read(load)[2 * experts + 1] == 0);
    }
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
