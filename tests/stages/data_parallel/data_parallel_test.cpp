#include "stages/replicas/data_parallel.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <mutex>
#include <thread>

#include "stages/stage/slices.h"
#include "tests/contract/data_parallel_contract.h"
#include "tests/support/single_process_replicas.h"
#include "tests/tensor/thread_group.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(data_parallel_test)

namespace {

using stages::DataParallelSpec;
using stages::Microbatch;
using tensor::Moves;
using tensor::ThreadGroup;

template <typename Body>
void on_threads(int count, const Body& body) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
}

OnReplicas over_groups(Moves moves) {
  return [moves](int replicas, const DataParallelSpec& spec, bool twins, const auto& body) {
    std::vector<std::shared_ptr<tensor::Meeting>> meetings;
    for (int i = 0; i < 4; ++i) meetings.push_back(std::make_shared<tensor::Meeting>(replicas));
    on_threads(replicas, [&](int replica) {
      const GradientReplica place{.count = replicas, .index = replica, .twins = twins};
      GradientStage stage(kSizes, spec, place);
      ThreadGroup group(meetings[0], replica, moves), again(meetings[1], replica, moves);
      ThreadGroup forward(meetings[2], replica, moves), backward(meetings[3], replica, moves);
      const auto all = stages::make_data_parallel(
          spec, stage,
          {.replicas = {.group = &group, .name = "replicas"},
           .twins = {.group = twins ? &again : nullptr, .name = "twins"},
           .forward_weights = spec.divides_weights() ? &forward : nullptr,
           .backward_weights = spec.divides_weights() ? &backward : nullptr},
          stage.device());
      body(replica, stage, *all);
    });
  };
}

void over_memory(int replicas, const DataParallelSpec& spec, bool twins, const EachReplica& body) {
  const auto meeting = std::make_shared<SingleProcessReplica::Meeting>(replicas);
  on_threads(replicas, [&](int replica) {
    GradientStage stage(kSizes, spec, {.count = replicas, .index = replica, .twins = twins});
    SingleProcessReplica all(meeting, replica, spec, stage);
    body(replica, stage, all);
  });
}

const std::vector<OnReplicas> kAll{over_groups(Moves::at_call), over_groups(Moves::at_wait),
                                   over_memory};

/// One replica in a group of its own, whose collectives are done only when they are waited for.
struct Alone {
  explicit Alone(const DataParallelSpec& spec, bool mirrored = false)
      : stage(kSizes),
        group(std::make_shared<tensor::Meeting>(1), 0, Moves::at_wait),
        mirror(std::make_shared<tensor::Meeting>(1), 0, Moves::at_wait),
        all(stages::make_data_parallel(
            spec, stage,
            {.mirror = {.group = mirrored ? &mirror : nullptr, .name = "mirror"},
             .replicas = {.group = &group, .name = "replicas"}},
            stage.device())) {
    all->begin_step();
  }
  void add(int parameter, Microbatch microbatch = Microbatch::last) {
    all->added(stage.adder(parameter), microbatch, stage.ran(0, 0));
    all->progress();
  }
  int begun() const {
    const auto found = group.traffic().find("all-reduce");
    return found == group.traffic().end() ? 0 : found->second.calls;
  }

  GradientStage stage;
  ThreadGroup group, mirror;
  std::unique_ptr<stages::DataParallel> all;
};

}  // namespace

BOOST_AUTO_TEST_CASE(replicas_get_the_same_sums_for_every_bucket_size) {
  for (const stages::StateDivision division : kDivisions)
    for (const OnReplicas& on_replicas : kAll) check_sums(on_replicas, division);
}

BOOST_AUTO_TEST_CASE(gradients_that_nobody_added_to_are_completed) {
  for (const stages::StateDivision division : kDivisions)
    for (const OnReplicas& on_replicas : kAll) check_left_over(on_replicas, division);
}

BOOST_AUTO_TEST_CASE(gradients_are_checked_before_they_are_summed) {
  for (const stages::StateDivision division : kDivisions)
    for (const OnReplicas& on_replicas : kAll) check_checks(on_replicas, division);
}

BOOST_AUTO_TEST_CASE(replicas_have_or_read_the_weights_of_all_slices) {
  for (const stages::StateDivision division : kDivisions)
    for (const OnReplicas& on_replicas : kAll) check_weights(on_replicas, division);
}

// Groups give up what is under way when a step is given up, so that its collectives must be done.
BOOST_AUTO_TEST_CASE(a_step_that_was_given_up_leaves_nothing_behind) {
  for (const stages::StateDivision division : kDivisions)
    for (const OnReplicas& on_replicas : {over_groups(Moves::at_call), OnReplicas(over_memory)})
      check_given_up(on_replicas, division);
}

BOOST_AUTO_TEST_CASE(norms_have_the_same_bits_in_every_division) {
  std::mutex mutex;
  std::vector<double> expected(kSizes.size());
  for (const stages::StateDivision division : kDivisions)
    over_groups(Moves::at_wait)(3, {.division = division, .buckets = {.size = 200}}, false,
                                [&](int, GradientStage& stage, auto& all) {
                                  all.begin_step();
                                  run_backwards(0, {6, 5, 4, 3, 2, 1, 0}, stage, all, 1);
                                  all.finish();
                                  std::vector<double> squares(kSizes.size());
                                  all.squared_norms(squares);
                                  const std::lock_guard lock(mutex);
                                  if (division == stages::StateDivision::none) expected = squares;
                                  BOOST_TEST(squares == expected);
                                });
}

/// Count and bytes of the gathers of a lane whose buckets have slots in turn: one for each read of
/// a bucket that its slot does not have.
std::pair<int, std::int64_t> expected_gathers(const GradientStage& stage,
                                              const std::vector<int>& order, int slots) {
  std::map<int, int> bucket_in;
  std::pair<int, std::int64_t> gathers;
  for (const int bucket : order) {
    const auto [slot, is_new] = bucket_in.try_emplace(bucket % slots, bucket);
    if (!is_new && slot->second == bucket) continue;
    slot->second = bucket;
    ++gathers.first;
    gathers.second += 4 * stage.buckets()[static_cast<std::size_t>(bucket)].range.size();
  }
  return gathers;
}

/// Counts and bytes of a step's collectives. With E elements of the layout in B buckets, M
/// microbatches and w bytes an element on the wire:
///   none                an all-reduce of each bucket: B, w E
///   optim               a reduce-scatter and an all-gather of each: B, w E and B, 4 E
///   optim_grads         a reduce-scatter for each microbatch: M B, M w E; gathers as with optim
///   optim_grads_params  the same; gathers of a bucket's 4 bytes an element whenever its slot has
///                       another one, for forwards and for backwards
/// Twins add an all-to-all of this replica's slice of each bucket, float32.
void check_counts(const DataParallelSpec& spec, bool twins) {
  using stages::StateDivision;
  std::mutex mutex;
  over_groups(Moves::at_wait)(3, spec, twins, [&](int, GradientStage& stage, auto& all) {
    const stages::UnitOrder order = read_order(stage);
    for (int step = 0; step < 2; ++step) {
      all.complete_weights();
      all.begin_step();
      run_readers(order, stage, all, [](int, stages::Pass) {});
      run_backwards(step, {6, 5, 4, 3, 2, 1, 0}, stage, all);
      all.finish();
      all.apply({});
      all.share_weights();
      all.complete_weights();
    }
    std::map<std::string, std::pair<int, std::int64_t>> found, expected;
    for (const stages::CollectiveReport& row : all.collectives())
      found[row.operation] = {row.count, row.bytes};
    std::vector<std::int64_t> offsets;
    for (const stages::Parameter& parameter : stage.parameters())
      offsets.push_back(parameter.offset);
    const std::int64_t elements = stage.num_elements();
    const auto buckets =
        static_cast<int>(stages::cut_into_buckets(offsets, elements, spec.buckets).size());
    const auto width = static_cast<std::int64_t>(tensor::size_of(spec.wire));
    const int times = spec.divides_gradients() ? kMicrobatches : 1;
    if (spec.division == StateDivision::none) {
      expected["all-reduce"] = {buckets, width * elements};
    } else {
      expected["reduce-scatter"] = {times * buckets, times * width * elements};
      expected["all-gather"] = {buckets, 4 * elements};
    }
    if (spec.divides_weights()) {
      const int slots = spec.reshards ? std::min(1 + spec.prefetch, buckets) : buckets;
      expected["all-gather"] = expected_gathers(stage, order.forward, slots);
      if (spec.reshards) {
        const auto [count, bytes] = expected_gathers(stage, order.backward, slots);
        expected["all-gather"].first += count;
        expected["all-gather"].second += bytes;
      }
    }
    if (twins) {
      std::int64_t own = 0;
      for (const stages::StateBucket& bucket : stage.buckets())
        own += bucket.kept_gradient.num_elements();
      expected["all-to-all"] = {buckets, 4 * own};
    }
    const std::lock_guard lock(mutex);
    BOOST_TEST((found == expected),
               "division " << static_cast<int>(spec.division) << ", prefetch " << spec.prefetch);
  });
}

BOOST_AUTO_TEST_CASE(a_step_has_the_collectives_of_its_division) {
  for (const stages::StateDivision division : kDivisions)
    for (const DataParallelSpec& spec : data_parallel_specs(division))
      for (const bool twins : {false, true})
        if (division != stages::StateDivision::none || !twins) check_counts(spec, twins);
}

BOOST_AUTO_TEST_CASE(a_bucket_begins_with_the_last_gradient_that_it_lacks) {
  Alone one({.buckets = {.size = 200}});  // {6, 5}, {4, 3, 2}, {1, 0}
  for (int i = 0; i < 7; ++i) one.add(i, Microbatch::earlier);
  BOOST_TEST(one.begun() == 0);
  one.add(4);
  one.add(3);
  BOOST_TEST(one.begun() == 0);
  one.add(2);
  BOOST_TEST(one.begun() == 1);  // although it is not the first bucket
  one.add(5);
  BOOST_TEST(one.begun() == 1);
  one.add(6);
  BOOST_TEST(one.begun() == 2);
  one.all->finish();
  BOOST_TEST(one.begun() == 3);
}

BOOST_AUTO_TEST_CASE(a_few_buckets_are_under_way_at_once) {
  Alone one({.buckets = {.size = 1}});
  for (int i = 6; i >= 0; --i) one.add(i);
  BOOST_TEST(one.begun() == 4);
  one.all->finish();
  BOOST_TEST(one.begun() == 7);
}

BOOST_AUTO_TEST_CASE(without_overlap_nothing_begins_before_the_end) {
  for (const auto& [overlaps, mirrored] : {std::pair{false, false}, {true, true}}) {
    Alone one({.buckets = {.size = 1}, .overlaps = overlaps}, mirrored);
    for (int i = 6; i >= 0; --i) one.add(i);
    BOOST_TEST(one.begun() == 0);
    one.all->finish();
    BOOST_TEST(one.begun() == 7);
  }
}

BOOST_AUTO_TEST_CASE(a_matrix_that_another_stage_has_too_keeps_no_bucket_waiting) {
  GradientStage stage(kSizes);
  stage.tie();
  ThreadGroup tied(std::make_shared<tensor::Meeting>(1), 0, Moves::at_wait);
  ThreadGroup replicas(std::make_shared<tensor::Meeting>(1), 0, Moves::at_wait);
  const auto all =
      stages::make_data_parallel({.buckets = {.size = 1}}, stage,
                                 {.tied = {.group = &tied, .name = "tied"},
                                  .replicas = {.group = &replicas, .name = "replicas"}},
                                 stage.device());
  all->begin_step();
  for (const int i : {0, 1, 2}) {
    all->added(stage.adder(i), Microbatch::last, stage.ran(0, 0));
    all->progress();
  }
  BOOST_TEST(tied.traffic().empty());
  BOOST_TEST(replicas.traffic().at("all-reduce").calls == 2);
  all->finish();
  BOOST_TEST(tied.traffic().at("all-reduce").calls == 1);
  BOOST_TEST(replicas.traffic().at("all-reduce").calls == 7);
  BOOST_REQUIRE(all->spans().size() == 8u);
  BOOST_TEST(all->spans().back().bucket == 6);
}

BOOST_AUTO_TEST_CASE(a_step_that_was_given_up_is_forgotten) {
  Alone one({.buckets = {.size = 1'000'000}});
  for (const int i : {6, 5, 4}) one.add(i);
  one.all->begin_step();
  for (const int i : {3, 2, 1, 0}) one.add(i);
  BOOST_TEST(one.begun() == 0);
  for (const int i : {6, 5, 4}) one.add(i);
  BOOST_TEST(one.begun() == 1);
  one.all->finish();
}

BOOST_AUTO_TEST_CASE(collectives_are_counted_as_they_travel) {
  const std::int64_t elements = 320 + 64 + 64 + 128 + 64 + 9024 + 64;
  for (const auto& [wire, bytes] :
       {std::pair{tensor::DType::f32, 4 * elements}, {tensor::DType::bf16, 2 * elements}}) {
    Alone one({.buckets = {.count = 3}, .wire = wire});
    for (int step = 0; step < 2; ++step) {
      one.all->begin_step();
      for (int i = 6; i >= 0; --i) one.add(i);
      one.all->finish();
      BOOST_REQUIRE(one.all->collectives().size() == 1u);
      const stages::CollectiveReport& row = one.all->collectives().front();
      BOOST_TEST(row.group == "replicas");
      BOOST_TEST(row.operation == "all-reduce");
      BOOST_TEST(row.count == 3);
      BOOST_TEST(row.bytes == bytes);
      BOOST_TEST(row.time_s >= 0);
      BOOST_TEST(row.exposed_s >= 0);
      BOOST_REQUIRE(one.all->spans().size() == 3u);
      for (const stages::CollectiveSpan& span : one.all->spans()) {
        BOOST_TEST(span.of == &row);
        BOOST_TEST(span.begin_s <= span.end_s);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
