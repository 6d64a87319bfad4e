#include "stages/data_parallel/data_parallel.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <mutex>
#include <thread>

#include "stages/data_parallel/slices.h"
#include "tests/contract/data_parallel_contract.h"
#include "tests/support/single_process_replicas.h"
#include "tests/tensor/thread_group.h"

namespace troupe::test {
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

OnReplicas over_groups(Moves moves, bool twins = false) {
  return [moves, twins](int replicas, const DataParallelSpec& spec, const auto& sizes,
                        const auto& body) {
    const auto meeting = std::make_shared<tensor::Meeting>(replicas);
    const auto twins_meeting = std::make_shared<tensor::Meeting>(replicas);
    on_threads(replicas, [&](int replica) {
      GradientStage stage(sizes);
      ThreadGroup group(meeting, replica, moves), again(twins_meeting, replica, moves);
      const auto all = stages::make_data_parallel(
          spec, stage,
          {.replicas = {.group = &group, .name = "replicas"},
           .twins = {.group = twins ? &again : nullptr, .name = "twins"}},
          stage.device());
      body(replica, stage, *all);
    });
  };
}

void over_memory(int replicas, const DataParallelSpec& spec, const std::vector<std::int64_t>& sizes,
                 const EachReplica& body) {
  const auto meeting = std::make_shared<SingleProcessReplica::Meeting>(replicas);
  on_threads(replicas, [&](int replica) {
    GradientStage stage(sizes);
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
    all->added({&parameter, 1}, microbatch, stage.ran(0, 0));
    all->progress();
  }
  int begun() const {
    const auto found = group.traffic().find("all_reduce");
    return found == group.traffic().end() ? 0 : found->second.calls;
  }

  GradientStage stage;
  ThreadGroup group, mirror;
  std::unique_ptr<stages::DataParallel> all;
};

}  // namespace

BOOST_AUTO_TEST_CASE(replicas_get_the_same_sums_for_every_bucket_size) {
  for (const OnReplicas& on_replicas : kAll) check_sums(on_replicas);
}

BOOST_AUTO_TEST_CASE(gradients_that_nobody_added_to_are_summed) {
  for (const OnReplicas& on_replicas : kAll) check_left_over(on_replicas);
}

BOOST_AUTO_TEST_CASE(gradients_are_checked_before_they_are_summed) {
  for (const OnReplicas& on_replicas : kAll) check_checks(on_replicas);
}

/// Norms, gradients of slices and gathered weights of replicas that divide the state.
void check_slices(int replicas, bool twins, const DataParallelSpec& spec) {
  std::mutex mutex;
  std::map<int, std::vector<double>> norms;
  over_groups(Moves::at_wait, twins)(
      replicas, spec, kSizes, [&](int replica, auto& stage, auto& all) {
        const std::vector<int> order{6, 5, 4, 3, 2, 1, 0};
        const auto pieces = stages::cut_into_pieces(stage.parameters(), stage.gradients());
        std::vector<std::int64_t> offsets;
        for (const stages::GradientPiece& piece : pieces) offsets.push_back(piece.begin);
        std::vector<double> squares(kSizes.size());
        for (int step = 0; step < 3; ++step) {
          run_step(replica, step, order, stage, all);
          all.squared_norms(squares);
          const tensor::Tensor weights = opened(stage.weights());
          std::fill_n(weights.template as<float>(), weights.num_elements(),
                      static_cast<float>(replica));
          all.apply({});
          all.share_weights();
          all.complete_weights();
          const std::lock_guard lock(mutex);
          if (norms.contains(step)) BOOST_TEST(squares == norms[step]);
          norms[step] = squares;
          for (const auto& bucket :
               stages::cut_into_buckets(offsets, stage.gradients().num_elements(), spec.buckets)) {
            const auto slices = stages::cut_into_slices(bucket, pieces, replicas);
            for (int owner = 0; owner < replicas; ++owner) {
              const bool is_kept = owner == replica || (twins && (owner + 1) % replicas == replica);
              const auto& [run, begin, end] = slices[static_cast<std::size_t>(owner)];
              for (std::int64_t i = begin; i < end; ++i)
                BOOST_REQUIRE(weights.template as<float>()[i] == static_cast<float>(owner));
              for (int i = run.first; i < run.end; ++i) {
                const auto sum = expected_sum(replicas, step, i, spec);
                double square = 0;
                for (const double x : sum) square += x * x;
                BOOST_TEST(squares[static_cast<std::size_t>(i)] == square,
                           boost::test_tools::tolerance(1e-12));
                if (is_kept) BOOST_TEST((stage.gradient(i) == sum));
              }
            }
          }
        }
        const std::int64_t elements = stage.gradients().num_elements();
        const auto width = static_cast<std::int64_t>(tensor::size_of(spec.wire));
        std::map<std::string, std::int64_t> bytes;
        for (const stages::CollectiveReport& row : all.collectives())
          bytes[row.operation] = row.bytes;
        BOOST_TEST(bytes.size() == (twins ? 3u : 2u));
        BOOST_TEST(bytes.at("reduce-scatter") == width * elements);
        BOOST_TEST(bytes.at("all-gather") == 4 * elements);
      });
}

BOOST_AUTO_TEST_CASE(a_divided_state_completes_slices_and_gathers_them) {
  for (DataParallelSpec spec : data_parallel_specs()) {
    spec.division = stages::StateDivision::optim;
    spec.overlaps_gather = spec.overlaps;
    for (const int replicas : {2, 3})
      for (const bool twins : {false, true}) check_slices(replicas, twins, spec);
  }
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
    all->added({&i, 1}, Microbatch::last, stage.ran(0, 0));
    all->progress();
  }
  BOOST_TEST(tied.traffic().empty());
  BOOST_TEST(replicas.traffic().at("all_reduce").calls == 2);
  all->finish();
  BOOST_TEST(tied.traffic().at("all_reduce").calls == 1);
  BOOST_TEST(replicas.traffic().at("all_reduce").calls == 7);
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
  const std::int64_t elements = 320 + 64 + 64 + 128 + 64 + 704 + 64;
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

}  // namespace troupe::test
