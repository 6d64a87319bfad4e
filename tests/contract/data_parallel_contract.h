#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <limits>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "stages/data_parallel/data_parallel.h"
#include "tests/support/gradient_stage.h"
#include "tests/support/seed.h"

// What stages::DataParallel promises, whatever implements it.

namespace troupe::test {

/// Calls the function on a thread for each replica, with a stage and what keeps the stages equal.
using EachReplica = std::function<void(int replica, GradientStage&, stages::DataParallel&)>;
using OnReplicas = std::function<void(int replicas, const stages::DataParallelSpec&,
                                      const std::vector<std::int64_t>& sizes, const EachReplica&)>;

inline const std::vector<std::int64_t> kSizes{300, 5, 64, 128, 1, 700, 33};

inline std::vector<stages::DataParallelSpec> data_parallel_specs() {
  std::vector<stages::DataParallelSpec> specs;
  for (const stages::BucketRule& buckets :
       {stages::BucketRule{.size = 1}, {.size = 200}, {.size = 1'000'000}, {.count = 3}})
    for (const bool overlaps : {true, false})
      for (const auto wire : {tensor::DType::f32, tensor::DType::bf16})
        specs.push_back({.buckets = buckets, .overlaps = overlaps, .wire = wire});
  return specs;
}

/// The sum of the replicas' gradients, in their order, as it travels.
inline std::vector<float> expected_sum(int replicas, int step, int parameter,
                                       const stages::DataParallelSpec& spec) {
  const auto travelled = [&](float x) {
    return spec.wire == tensor::DType::bf16 ? tensor::to_float(tensor::to_bfloat16(x)) : x;
  };
  std::vector<float> sums;
  for (std::int64_t i = 0; i < kSizes[static_cast<std::size_t>(parameter)]; ++i) {
    float sum = travelled(GradientStage::element(0, step, parameter, i));
    for (int replica = 1; replica < replicas; ++replica)
      sum += travelled(GradientStage::element(replica, step, parameter, i));
    sums.push_back(travelled(sum));
  }
  return sums;
}

/// A step in which the backwards of two microbatches give each parameter its gradient in this
/// order.
inline void run_step(int replica, int step, const std::vector<int>& order, GradientStage& stage,
                     stages::DataParallel& data_parallel) {
  data_parallel.begin_step();
  for (const auto microbatch : {stages::Microbatch::earlier, stages::Microbatch::last})
    for (const int& parameter : order) {
      stage.compute(replica, microbatch == stages::Microbatch::last ? step : 1000, parameter);
      data_parallel.added({&parameter, 1}, microbatch, stage.ran(0, 0));
      data_parallel.progress();
    }
  data_parallel.finish();
}

/// All replicas get the sum in replica order, with the same bits for every rule of buckets, with
/// and without overlap, in whatever order gradients are complete.
inline void check_sums(const OnReplicas& on_replicas) {
  std::mutex mutex;
  std::mt19937_64 random(fresh_seed());
  for (const auto& spec : data_parallel_specs())
    for (const int replicas : {2, 3}) {
      std::vector<int> order(kSizes.size());
      std::iota(order.begin(), order.end(), 0);
      std::ranges::shuffle(order, random);
      on_replicas(replicas, spec, kSizes, [&](int replica, GradientStage& stage, auto& all) {
        for (int step = 0; step < 3; ++step) {
          run_step(replica, step, order, stage, all);
          const std::lock_guard lock(mutex);
          for (std::size_t i = 0; i < kSizes.size(); ++i)
            BOOST_TEST((stage.gradient(static_cast<int>(i)) ==
                        expected_sum(replicas, step, static_cast<int>(i), spec)),
                       "w" << i << " of replica " << replica << " at step " << step);
        }
      });
    }
}

/// Gradients that no node has added to are summed as well.
inline void check_left_over(const OnReplicas& on_replicas) {
  std::mutex mutex;
  const stages::DataParallelSpec spec{.buckets = {.size = 1}};
  on_replicas(2, spec, kSizes, [&](int replica, GradientStage& stage, auto& all) {
    all.begin_step();
    for (int i = 0; i < static_cast<int>(kSizes.size()); ++i) stage.compute(replica, 0, i);
    const std::vector<int> some{5, 2};
    all.added(some, stages::Microbatch::last, stage.ran(0, 0));
    all.finish();
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < kSizes.size(); ++i)
      BOOST_TEST(
          (stage.gradient(static_cast<int>(i)) == expected_sum(2, 0, static_cast<int>(i), spec)));
  });
}

/// What is not finite, or large, is found on the replica that has it, before it is summed.
inline void check_checks(const OnReplicas& on_replicas) {
  std::mutex mutex;
  for (const bool overlaps : {true, false}) {
    const stages::DataParallelSpec spec{
        .buckets = {.size = 1}, .overlaps = overlaps, .checks_finite = true, .large_norm = 1e3};
    on_replicas(2, spec, kSizes, [&](int replica, GradientStage& stage, auto& all) {
      std::vector<int> order(kSizes.size());
      std::iota(order.rbegin(), order.rend(), 0);
      const auto step = [&](float odd) {
        all.begin_step();
        for (const int& i : order) {
          stage.compute(replica, 0, i);
          if (i == 3 && replica == 1) opened(stage.parameters()[3].gradient).as<float>()[7] = odd;
          all.added({&i, 1}, stages::Microbatch::last, stage.ran(0, 0));
        }
        all.finish();
      };
      step(std::numeric_limits<float>::quiet_NaN());
      {
        const std::lock_guard lock(mutex);
        BOOST_TEST(all.not_finite() ==
                   (replica == 1
                        ? "the gradient of w3, in bucket 3, is not finite before it is summed"
                        : ""));
        BOOST_TEST(std::isnan(stage.gradient(3)[7]));
      }
      step(4e3f);
      {
        const std::lock_guard lock(mutex);
        BOOST_TEST(all.not_finite() == "");
        BOOST_REQUIRE(all.large_buckets().size() == (replica == 1 ? 1u : 0u));
        for (const auto& large : all.large_buckets()) {
          BOOST_TEST(large.bucket == 3);
          BOOST_TEST(std::abs(large.norm - 4e3) < 1);
        }
      }
      step(0);
      const std::lock_guard lock(mutex);
      BOOST_TEST(all.large_buckets().empty());
    });
  }
}

}  // namespace troupe::test
