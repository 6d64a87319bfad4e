#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "stages/replicas/data_parallel.h"
#include "tests/support/gradient_stage.h"
#include "tests/support/seed.h"

// What stages::DataParallel promises, whatever implements it and whatever the replicas divide.

namespace troupe::test {

/// Calls the function on a thread for each replica, with a stage and what keeps the stages equal.
using EachReplica = std::function<void(int replica, GradientStage&, stages::DataParallel&)>;
/// `twins`: GradientReplica::twins.
using OnReplicas = std::function<void(int replicas, const stages::DataParallelSpec&, bool twins,
                                      const EachReplica&)>;

/// One of them is long enough to be cut.
inline const std::vector<std::int64_t> kSizes{300, 5, 64, 128, 1, 9000, 33};
inline constexpr int kNumParameters = 7;
inline constexpr int kMicrobatches = 2;

inline constexpr stages::StateDivision kDivisions[]{
    stages::StateDivision::none, stages::StateDivision::optim, stages::StateDivision::optim_grads,
    stages::StateDivision::optim_grads_params};

/// Every rule of buckets with each wire, with and without overlap; of divided weights one or the
/// other way to gather them.
inline std::vector<stages::DataParallelSpec> data_parallel_specs(stages::StateDivision division) {
  std::vector<stages::DataParallelSpec> specs;
  int prefetch = 0;
  for (const stages::BucketRule& buckets :
       {stages::BucketRule{.size = 1}, {.size = 200}, {.size = 1'000'000}, {.count = 3}})
    for (const bool overlaps : {true, false})
      for (const auto wire : {tensor::DType::f32, tensor::DType::bf16})
        specs.push_back({.division = division,
                         .buckets = buckets,
                         .prefetch = prefetch++ % 4,
                         .reshards = specs.size() % 3 != 0,
                         .overlaps = overlaps,
                         .overlaps_gather = overlaps,
                         .wire = wire,
                         .microbatches = kMicrobatches});
  return specs;
}

inline float travelled(float x, const stages::DataParallelSpec& spec) {
  return spec.wire == tensor::DType::bf16 ? tensor::to_float(tensor::to_bfloat16(x)) : x;
}

/// The sum of the replicas' gradients, in their order, as it travels. Whole gradients are those of
/// all microbatches, divided ones are summed for each and added then.
inline std::vector<float> expected_sum(int replicas, int step, int parameter,
                                       const stages::DataParallelSpec& spec,
                                       int microbatches = kMicrobatches) {
  const auto of_replica = [&](int replica, int first, int end, std::int64_t i) {
    float sum = GradientStage::element(replica, step, first, parameter, i);
    for (int m = first + 1; m < end; ++m)
      sum += GradientStage::element(replica, step, m, parameter, i);
    return travelled(sum, spec);
  };
  const auto of_all = [&](int first, int end, std::int64_t i) {
    float sum = of_replica(0, first, end, i);
    for (int replica = 1; replica < replicas; ++replica) sum += of_replica(replica, first, end, i);
    return travelled(sum, spec);
  };
  std::vector<float> sums;
  for (std::int64_t i = 0; i < kSizes[static_cast<std::size_t>(parameter)]; ++i) {
    if (!spec.divides_gradients()) {
      sums.push_back(of_all(0, microbatches, i));
      continue;
    }
    float sum = of_all(0, 1, i);
    for (int m = 1; m < microbatches; ++m) sum += of_all(m, m + 1, i);
    sums.push_back(sum);
  }
  return sums;
}

/// Calls a node of a backward and says so.
inline void run_node(int parameter, int step, int microbatch, bool is_last, GradientStage& stage,
                     stages::DataParallel& data_parallel) {
  const stages::NodeEffects& node = stage.adder(parameter);
  data_parallel.awaited(stages::Pass::backward, node);
  data_parallel.open(stages::Pass::backward, node);
  stage.compute(step, microbatch, parameter);
  data_parallel.added(node, is_last ? stages::Microbatch::last : stages::Microbatch::earlier,
                      stage.ran(0, 0));
  data_parallel.progress();
}

/// The backwards of a step, each of which gives all parameters their gradients in this order.
inline void run_backwards(int step, const std::vector<int>& order, GradientStage& stage,
                          stages::DataParallel& data_parallel, int microbatches = kMicrobatches) {
  for (int m = 0; m < microbatches; ++m)
    for (const int parameter : order)
      run_node(parameter, step, m, m + 1 == microbatches, stage, data_parallel);
}

inline void run_step(int step, const std::vector<int>& order, GradientStage& stage,
                     stages::DataParallel& data_parallel) {
  data_parallel.begin_step();
  run_backwards(step, order, stage, data_parallel);
  data_parallel.finish();
}

/// An order in which all parameters of a bucket follow each other, in any order of buckets.
inline std::vector<int> random_order(const GradientStage& stage, std::uint64_t seed) {
  std::vector<int> order(kSizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(seed);
  std::ranges::shuffle(order, random);
  if (stage.buckets().empty()) return order;
  std::map<int, std::uint64_t> key;
  for (const int parameter : order)
    if (!key.contains(stage.bucket_of(parameter))) key[stage.bucket_of(parameter)] = random();
  std::ranges::stable_sort(order, {}, [&](int i) { return key[stage.bucket_of(i)]; });
  return order;
}

/// Compares what a replica keeps of a parameter's gradient with the whole sum.
inline void check_kept(const GradientStage& stage, int parameter, const std::vector<float>& sum) {
  const stages::Parameter& of = stage.parameters()[static_cast<std::size_t>(parameter)];
  const auto same = [&](const tensor::Tensor& kept, int slice) {
    const std::int64_t first =
        of.row_cuts.empty() ? 0 : of.row_cuts[static_cast<std::size_t>(slice)];
    const auto* const values = opened(kept).as<float>();
    BOOST_TEST(std::equal(values, values + kept.num_elements(), sum.begin() + first),
               of.name << ", slice " << slice);
  };
  if (of.row_cuts.empty()) return same(of.gradient, 0);
  if (stage.gradients()) {
    same(of.rows_of(of.slice, of.gradient), of.slice);
    if (of.twin_slice >= 0) same(of.rows_of(of.twin_slice, of.gradient), of.twin_slice);
    return;
  }
  same(of.kept_gradient, of.slice);
  if (of.twin_slice >= 0) same(of.twin_gradient, of.twin_slice);
}

/// All replicas get the sum in replica order in the slices that they keep, with the same bits for
/// every rule of buckets, with and without overlap, in whatever order gradients are complete. They
/// all get its norms.
inline void check_sums(const OnReplicas& on_replicas, stages::StateDivision division) {
  std::mutex mutex;
  const std::uint64_t seed = fresh_seed();
  for (const auto& spec : data_parallel_specs(division))
    for (const int replicas : {2, 3}) {
      const bool twins = division != stages::StateDivision::none && spec.prefetch % 2 == 0;
      std::map<int, std::vector<double>> norms;  // by step
      on_replicas(replicas, spec, twins, [&](int replica, GradientStage& stage, auto& all) {
        const std::vector<int> order = random_order(stage, seed);
        std::vector<double> squares(kSizes.size());
        for (int step = 0; step < 3; ++step) {
          run_step(step, order, stage, all);
          all.squared_norms(squares);
          const std::lock_guard lock(mutex);
          if (!norms.contains(step)) norms[step] = squares;
          BOOST_TEST(squares == norms[step], "replica " << replica);
          for (int i = 0; i < kNumParameters; ++i) {
            const auto sum = expected_sum(replicas, step, i, spec);
            check_kept(stage, i, sum);
            double square = 0;
            for (const double x : sum) square += x * x;
            BOOST_TEST(squares[static_cast<std::size_t>(i)] == square,
                       boost::test_tools::tolerance(1e-12));
          }
        }
      });
    }
}

/// Whole gradients that no node has added to are summed as well; divided ones are zero.
inline void check_left_over(const OnReplicas& on_replicas, stages::StateDivision division) {
  std::mutex mutex;
  const stages::DataParallelSpec spec{.division = division, .buckets = {.size = 1}};
  on_replicas(2, spec, false, [&](int, GradientStage& stage, auto& all) {
    for (const int step : {0, 1}) {
      all.begin_step();
      for (int i = 0; i < kNumParameters; ++i) {
        const bool is_left = step == 1 && i != 5 && i != 2;
        if (!is_left)
          run_node(i, step, 0, true, stage, all);
        else if (!spec.divides_gradients())
          stage.compute(step, 0, i);
      }
      all.finish();
      const std::lock_guard lock(mutex);
      for (int i = 0; i < kNumParameters; ++i) {
        std::vector<float> sum = expected_sum(2, step, i, spec, 1);
        if (step == 1 && i != 5 && i != 2 && spec.divides_gradients()) std::ranges::fill(sum, 0.0f);
        check_kept(stage, i, sum);
      }
    }
  });
}

/// A step that was given up after the backwards of a microbatch leaves nothing in the next one.
inline void check_given_up(const OnReplicas& on_replicas, stages::StateDivision division) {
  std::mutex mutex;
  const stages::DataParallelSpec spec{
      .division = division, .buckets = {.size = 200}, .microbatches = kMicrobatches};
  on_replicas(2, spec, false, [&](int, GradientStage& stage, auto& all) {
    const std::vector<int> order{6, 5, 4, 3, 2, 1, 0};
    for (const int given_up : {7, 4}) {
      all.begin_step();
      for (int k = 0; k < given_up; ++k)
        run_node(order[static_cast<std::size_t>(k)], 9, 0, false, stage, all);
    }
    run_step(1, order, stage, all);
    const std::lock_guard lock(mutex);
    for (int i = 0; i < kNumParameters; ++i) check_kept(stage, i, expected_sum(2, 1, i, spec));
  });
}

/// What is not finite, or large, is found on the replica that has it, before it is summed.
inline void check_checks(const OnReplicas& on_replicas, stages::StateDivision division) {
  std::mutex mutex;
  for (const bool overlaps : {true, false}) {
    const stages::DataParallelSpec spec{.division = division,
                                        .buckets = {.size = 1},
                                        .overlaps = overlaps,
                                        .microbatches = kMicrobatches,
                                        .checks_finite = true,
                                        .large_norm = 1e3};
    on_replicas(2, spec, false, [&](int replica, GradientStage& stage, auto& all) {
      const auto step = [&](float odd) {
        all.begin_step();
        for (int m = 0; m < kMicrobatches; ++m)
          for (int i = kNumParameters; i-- > 0;) {
            const stages::NodeEffects& node = stage.adder(i);
            all.open(stages::Pass::backward, node);
            stage.compute(0, m, i);
            if (i == 3 && m == 1 && replica == 1)
              opened(stage.parameters()[3].gradient).template as<float>()[7] = odd;
            all.added(node, m == 1 ? stages::Microbatch::last : stages::Microbatch::earlier,
                      stage.ran(0, 0));
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

/// The order in which the nodes of a step read the weights of a stage's buckets.
inline stages::UnitOrder read_order(const GradientStage& stage) {
  stages::UnitOrder order;
  const auto count = static_cast<int>(stage.nodes(0, stages::Pass::forward).size());
  for (int m = 0; m < kMicrobatches; ++m)
    for (int bucket = count; bucket-- > 0;) order.forward.push_back(bucket);
  for (int m = 0; m < kMicrobatches; ++m)
    for (int bucket = 0; bucket < count; ++bucket) order.backward.push_back(bucket);
  return order;
}

/// Calls the nodes that read weights in that order, the forwards of the second microbatch and the
/// backwards of the first by turns, and calls `check(bucket, pass)` for each.
template <typename Check>
void run_readers(const stages::UnitOrder& order, GradientStage& stage,
                 stages::DataParallel& data_parallel, const Check& check) {
  data_parallel.expect(order);
  const auto read = [&](int bucket, stages::Pass pass) {
    const auto& node = stage.nodes(0, pass)[static_cast<std::size_t>(bucket)];
    data_parallel.awaited(pass, node);
    data_parallel.open(pass, node);
    check(bucket, pass);
    data_parallel.progress();
  };
  const std::size_t first = order.forward.size() / kMicrobatches;
  for (std::size_t i = 0; i < order.forward.size(); ++i) {
    read(order.forward[i], stages::Pass::forward);
    if (i >= first) read(order.backward[i - first], stages::Pass::input_gradient);
  }
  for (std::size_t i = order.forward.size() - first; i < order.backward.size(); ++i)
    read(order.backward[i], stages::Pass::input_gradient);
}

/// After each update all replicas have, or read, the weights of all slices.
inline void check_weights(const OnReplicas& on_replicas, stages::StateDivision division) {
  std::mutex mutex;
  for (const auto& spec : data_parallel_specs(division)) {
    on_replicas(3, spec, false, [&](int, GradientStage& stage, auto& all) {
      const std::vector<int> gradients{6, 5, 4, 3, 2, 1, 0};
      const stages::UnitOrder order = read_order(stage);
      for (int updates = 0; updates < 3; ++updates) {
        all.complete_weights();
        all.begin_step();
        run_readers(order, stage, all, [&](int bucket, stages::Pass pass) {
          const auto lane = pass == stages::Pass::forward || !spec.reshards
                                ? stages::Pass::forward
                                : stages::Pass::backward;
          const auto& range = stage.buckets()[static_cast<std::size_t>(bucket)].range;
          const std::vector<float>& read = stage.packed(bucket, lane);
          bool is_right = std::ssize(read) == range.size();
          for (std::int64_t i = 0; is_right && i < range.size(); ++i)
            is_right = read[static_cast<std::size_t>(i)] ==
                       GradientStage::weight(updates, range.begin + i);
          const std::lock_guard lock(mutex);
          BOOST_TEST(is_right, "bucket " << bucket << " after update " << updates);
        });
        run_backwards(updates, gradients, stage, all);
        all.finish();
        all.apply({});
        all.share_weights();
        if (!stage.weights()) continue;
        all.complete_weights();
        const tensor::Tensor whole = opened(stage.weights());
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < whole.num_elements(); ++i)
          wrong += whole.as<float>()[i] != GradientStage::weight(updates + 1, i);
        const std::lock_guard lock(mutex);
        BOOST_TEST(wrong == 0);
      }
    });
  }
}

}  // namespace troupe::test
