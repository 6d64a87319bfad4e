#include "stages/replicas/weight_comparison.h"

#include <array>
#include <boost/test/unit_test.hpp>
#include <random>
#include <thread>

#include "tests/support/fake_stage.h"
#include "tests/support/seed.h"
#include "tests/tensor/thread_group.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(weight_comparison_test)

namespace {

using stages::WeightComparison;
using tensor::Moves;

/// Calls body(member, stage, group) for each replica of a stage, all of them equal.
template <typename Body>
void on_replicas(int count, Moves moves, const Body& body) {
  const auto meeting = std::make_shared<tensor::Meeting>(count);
  std::vector<std::jthread> threads;
  for (int member = 0; member < count; ++member)
    threads.emplace_back([&, member] {
      FakeStage stage(small_model(), 0, 2);
      stage.fill();
      tensor::ThreadGroup group(meeting, member, moves);
      body(member, stage, group);
    });
}

/// What each replica finds after change(member, stage).
template <typename Change>
std::vector<WeightComparison> compared(int count, Moves moves, const Change& change) {
  std::vector<WeightComparison> all(static_cast<std::size_t>(count));
  on_replicas(count, moves, [&](int member, FakeStage& stage, tensor::ProcessGroup& group) {
    change(member, stage);
    all[static_cast<std::size_t>(member)] = stages::compare_weights(stage, group, stage.device());
  });
  return all;
}

float& element_of(const tensor::Tensor& x, std::size_t i) {
  return opened(x).as<float>()[i];
}

}  // namespace

BOOST_AUTO_TEST_CASE(equal_replicas_are_found_equal) {
  for (const Moves moves : {Moves::at_call, Moves::at_wait})
    for (const WeightComparison& found : compared(3, moves, [](int, FakeStage&) {}))
      BOOST_TEST((found.all_equal && found.first == -1 && found.count == 0));
}

BOOST_AUTO_TEST_CASE(every_member_learns_what_differs_from_most) {
  std::mt19937_64 random(fresh_seed());
  const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  for (int round = 0; round < 20; ++round) {
    const std::size_t members = 2 + below(4), odd = below(members);
    const std::size_t last = FakeStage(small_model(), 0, 2).parameters().size() - 1;
    const std::size_t first = below(last), at = random();
    const auto all =
        compared(static_cast<int>(members), Moves::at_wait, [&](int member, auto& stage) {
          if (static_cast<std::size_t>(member) != odd) return;
          for (const std::size_t i : {first, last}) {
            const tensor::Tensor& weight = stage.parameters()[i].weight;
            element_of(weight, at % static_cast<std::size_t>(weight.num_elements())) += 1;
          }
        });
    // Of two members, the first is as good as the other.
    const std::size_t differs = members == 2 ? 1 : odd;
    for (std::size_t member = 0; member < members; ++member) {
      const WeightComparison& found = all[member];
      BOOST_TEST(!found.all_equal);
      BOOST_TEST(found.reference == (differs == 0 ? 1 : 0));
      BOOST_TEST(found.first == (member == differs ? static_cast<int>(first) : -1));
      BOOST_TEST(found.count == (member == differs ? 2 : 0));
    }
  }
}

BOOST_AUTO_TEST_CASE(copied_state_is_that_of_the_given_member) {
  std::vector<std::vector<float>> before(3), after(3);
  on_replicas(3, Moves::at_wait, [&](int member, FakeStage& stage, tensor::ProcessGroup& group) {
    const stages::Parameter& parameter = stage.parameters()[1];
    const auto values = [&] {
      return std::vector{element_of(parameter.weight, 0), element_of(parameter.exp_avg, 1),
                         element_of(parameter.exp_avg_sq, 2),
                         static_cast<float>(stage.times_changed())};
    };
    const auto own = static_cast<std::size_t>(member);
    before[own] = values();
    if (member != 2)
      for (const tensor::Tensor& x : {parameter.weight, parameter.exp_avg, parameter.exp_avg_sq})
        for (std::size_t i = 0; i < 3; ++i) element_of(x, i) += 1;
    stages::copy_state(stage, group, 2, stage.device());
    after[own] = values();
  });
  before[2].back() += 1;  // a stage is told once that its weights have changed
  for (const auto& values : after)
    BOOST_TEST(values == before[2], boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_twin_learns_what_differs_from_the_owner_and_gets_the_owners) {
  constexpr int kReplicas = 3;
  std::mt19937_64 random(fresh_seed());
  for (int round = 0; round < 10; ++round) {
    const int odd = static_cast<int>(random() % kReplicas);
    const std::size_t changed = random() % 4;
    std::vector<WeightComparison> before(kReplicas), after(kReplicas);
    std::array<bool, kReplicas> restored{};  // not a vector<bool>, whose elements share bytes
    on_replicas(kReplicas, Moves::at_wait, [&](int member, FakeStage&, auto& group) {
      FakeStage stage(small_model(), 0, 2, {},
                      {.index = member, .count = kReplicas, .twins = true});
      stage.fill();
      const stages::Parameter& parameter = stage.parameters()[changed];
      const auto values = [&] {
        std::vector<float> all;
        for (const tensor::Tensor& x :
             {parameter.twin_weight, parameter.twin_exp_avg, parameter.twin_exp_avg_sq})
          for (std::int64_t i = 0; i < x.num_elements(); ++i)
            all.push_back(element_of(x, static_cast<std::size_t>(i)));
        return all;
      };
      const auto owners = values();
      if (member == odd)
        for (const tensor::Tensor& x :
             {parameter.twin_weight, parameter.twin_exp_avg, parameter.twin_exp_avg_sq})
          element_of(x, 0) += 1;
      const auto own = static_cast<std::size_t>(member);
      before[own] = stages::compare_with_twin(stage, group, stage.device());
      stages::copy_to_twins(stage, group, stage.device());
      after[own] = stages::compare_with_twin(stage, group, stage.device());
      restored[own] = values() == owners;
    });
    for (std::size_t member = 0; member < kReplicas; ++member) {
      const bool differs = static_cast<int>(member) == odd;
      BOOST_TEST(!before[member].all_equal);
      BOOST_TEST(before[member].first == (differs ? static_cast<int>(changed) : -1));
      BOOST_TEST(before[member].count == (differs ? 1 : 0));
      BOOST_TEST(before[member].reference ==
                 (static_cast<int>(member) + kReplicas - 1) % kReplicas);
      BOOST_TEST((after[member].all_equal && after[member].count == 0));
      BOOST_TEST(restored[member]);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
