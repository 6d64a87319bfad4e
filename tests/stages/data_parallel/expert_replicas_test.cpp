#include <boost/test/unit_test.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "stages/decoder/stage/optimizer.h"
#include "stages/decoder/stage/transformer_stage.h"
#include "stages/replicas/data_parallel.h"
#include "stages/replicas/weight_comparison.h"
#include "tensor/values/random.h"
#include "tests/support/fake_stage.h"
#include "tests/support/test_device.h"
#include "tests/tensor/thread_group.h"

// Replicas that share experts out: whose gradients they add, what they keep, and that norms count
// every expert once.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(expert_replicas_test)

namespace {

using stages::Parameter;
using stages::StateDivision;
using tensor::Moves;
using tensor::ThreadGroup;
using Values = std::vector<float>;

constexpr int kExperts = 4;
constexpr std::uint64_t kSeed = 5;

stages::StageSpec stage_spec(int dp, int ep, int replica, StateDivision division, bool twins) {
  stages::StageSpec spec{.model = {.kind = stages::ModelKind::mixtral,
                                   .hidden_size = 64,
                                   .intermediate_size = 96,
                                   .num_hidden_layers = 2,
                                   .num_attention_heads = 4,
                                   .num_key_value_heads = 2,
                                   .head_dim = 16,
                                   .vocab_size = 96,
                                   .experts = {.count = kExperts, .per_token = 2, .width = 96}},
                         .chunks = {{.end_layer = 2, .embedding = true, .head = true}},
                         .sharding = {.ep = ep, .ep_member = replica % ep},
                         .seq_len = 8,
                         .global_tokens = 8};
  if (division != StateDivision::none)
    spec.state = {
        .count = dp, .index = replica, .buckets = {.size = 9000}, .twins = twins, .ep = ep};
  return spec;
}

/// The gradient of a parameter that a replica computes.
Values gradient_of(const std::string& name, int replica, std::int64_t size) {
  const tensor::Random random(kSeed, name + std::to_string(replica));
  Values values;
  for (std::int64_t i = 0; i < size; ++i)
    values.push_back(static_cast<float>(random.normal(static_cast<std::uint64_t>(i))));
  return values;
}

Values values_of(const tensor::Tensor& of) {
  const tensor::Tensor x = opened(of);
  return {x.as<float>(), x.as<float>() + x.num_elements()};
}

/// One replica of a step.
struct Replica {
  int number = 0;
  stages::Stage& stage;
  stages::DataParallel& all;
  ThreadGroup &replicas, &experts, &twins;
};

/// Calls body(replica) on a thread for each, after an update whose gradients are the replicas'.
template <typename Body>
void train(int dp, int ep, StateDivision division, const Body& body) {
  const bool twins = division != StateDivision::none && dp > ep;
  const auto all = std::make_shared<tensor::Meeting>(dp),
             of_twins = std::make_shared<tensor::Meeting>(dp);
  std::vector<std::shared_ptr<tensor::Meeting>> places;
  for (int i = 0; i < ep; ++i) places.push_back(std::make_shared<tensor::Meeting>(dp / ep));
  std::vector<std::jthread> threads;
  for (int r = 0; r < dp; ++r)
    threads.emplace_back([&, r] {
      const auto device = make_test_device();
      const stages::StageSpec spec = stage_spec(dp, ep, r, division, twins);
      const auto stage = stages::make_transformer_stage(spec, *device);
      stages::initialize(*stage, spec.model, kSeed, 1);
      ThreadGroup replicas(all, r, Moves::at_wait), again(of_twins, r, Moves::at_wait);
      ThreadGroup experts(places[static_cast<std::size_t>(r % ep)], r / ep, Moves::at_wait);
      const stages::DataParallelSpec how{
          .division = division, .buckets = {.size = 9000}, .every_microbatch = false};
      const auto data_parallel = stages::make_data_parallel(
          how, *stage,
          {.replicas = {.group = &replicas, .name = "replicas"},
           .twins = {.group = twins ? &again : nullptr, .name = "twins"},
           .experts = {.group = ep > 1 && dp > ep ? &experts : nullptr, .name = "experts"}},
          *device);
      data_parallel->begin_step();
      for (const Parameter& parameter : stage->parameters()) {
        const tensor::Tensor x = opened(parameter.gradient);
        std::ranges::copy(gradient_of(parameter.name, r, x.num_elements()), x.as<float>());
      }
      data_parallel->finish();
      body(Replica{r, *stage, *data_parallel, replicas, experts, again});
    });
}

/// Whether an expert's gradient is the sum of these alone.
Values expected_sum(const std::string& name, int dp, int ep, int first, std::int64_t size) {
  Values sum = gradient_of(name, first, size);
  for (int r = first + ep; r < dp; r += ep) {
    const Values more = gradient_of(name, r, size);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
  }
  return sum;
}

struct Mesh {
  int dp, ep;
};
constexpr Mesh kMeshes[]{{2, 2}, {4, 2}, {6, 2}, {4, 4}};
constexpr StateDivision kDivisions[]{StateDivision::none, StateDivision::optim,
                                     StateDivision::optim_grads};

}  // namespace

BOOST_AUTO_TEST_CASE(experts_are_summed_over_the_replicas_that_hold_them) {
  std::mutex mutex;
  for (const auto& [dp, ep] : kMeshes)
    for (const StateDivision division : kDivisions)
      train(dp, ep, division, [&](const Replica& replica) {
        const std::lock_guard lock(mutex);
        for (const Parameter& parameter : replica.stage.parameters()) {
          const std::int64_t size = parameter.gradient.num_elements();
          const Values sum = parameter.is_expert
                                 ? expected_sum(parameter.name, dp, ep, replica.number % ep, size)
                                 : expected_sum(parameter.name, dp, 1, 0, size);
          const tensor::Region kept = parameter.region_of(parameter.slice);
          const auto begin = sum.begin() + kept.row * (kept.columns == 0 ? 1 : kept.columns);
          const Values expected(begin, begin + kept.num_elements());
          BOOST_TEST(
              (values_of(parameter.kept_gradient) == expected),
              parameter.name << " of replica " << replica.number << ", dp " << dp << ", ep " << ep);
        }
      });
}

BOOST_AUTO_TEST_CASE(norms_count_each_expert_once) {
  std::mutex mutex;
  for (const auto& [dp, ep] : kMeshes)
    for (const StateDivision division : kDivisions) {
      std::vector<double> first;
      train(dp, ep, division, [&, dp = dp, ep = ep](const Replica& replica) {
        std::vector<double> squares(replica.stage.parameters().size());
        replica.all.squared_norms(squares);
        const std::lock_guard lock(mutex);
        if (first.empty()) first = squares;
        BOOST_TEST(squares == first, boost::test_tools::per_element());
        double all = 0, expected = 0;
        for (std::size_t i = 0; i < squares.size(); ++i) {
          const Parameter& parameter = replica.stage.parameters()[i];
          all += squares[i];
          if (parameter.is_expert) continue;
          for (const float x :
               expected_sum(parameter.name, dp, 1, 0, parameter.gradient.num_elements()))
            expected += double{x} * x;
        }
        const stages::ModelConfig model = stage_spec(dp, ep, replica.number, division, false).model;
        for (const auto& info : stages::parameters_of(model))
          if (info.expert >= 0)
            for (const float x : expected_sum(info.name, dp, ep, info.expert / (kExperts / ep),
                                              info.shape.num_elements()))
              expected += double{x} * x;
        BOOST_TEST(all == expected, boost::test_tools::tolerance(1e-9));
      });
    }
}

BOOST_AUTO_TEST_CASE(an_update_has_the_same_bits_in_every_division) {
  std::mutex mutex;
  for (const auto& [dp, ep] : kMeshes) {
    std::map<std::string, Values> weights;  // without division
    for (const StateDivision division : kDivisions)
      train(dp, ep, division, [&, dp = dp, ep = ep](const Replica& replica) {
        replica.all.apply(stages::adamw_step({}, 1, 0.5));
        replica.all.share_weights();
        replica.all.complete_weights();
        const std::lock_guard lock(mutex);
        for (const Parameter& parameter : replica.stage.parameters()) {
          const Values now = values_of(parameter.weight);
          const Values& expected = weights.emplace(parameter.name, now).first->second;
          BOOST_TEST((now == expected), parameter.name << " of replica " << replica.number
                                                       << ", dp " << dp << ", ep " << ep);
        }
      });
    const auto spec = stage_spec(dp, ep, 0, StateDivision::none, false);
    BOOST_TEST(weights.size() == stages::parameters_of(spec.model).size());
  }
}

BOOST_AUTO_TEST_CASE(twins_hold_the_same_experts) {
  std::mutex mutex;
  std::map<std::string, Values> own, twin;  // moments by the rows that they are of
  train(6, 2, StateDivision::optim, [&](const Replica& replica) {
    replica.all.apply(stages::adamw_step({}, 1, 0.5));
    const auto found = stages::compare_with_twin(
        replica.stage, replica.twins, replica.stage.stream_of(stages::Pass::forward).device(), 2);
    const std::lock_guard lock(mutex);
    BOOST_TEST(found.all_equal);
    for (const Parameter& parameter : replica.stage.parameters()) {
      const auto key = [&](int slice) { return parameter.name + " " + std::to_string(slice); };
      own[key(parameter.slice)] = values_of(parameter.exp_avg_sq);
      twin[key(parameter.twin_slice)] = values_of(parameter.twin_exp_avg_sq);
    }
  });
  BOOST_TEST((own == twin));
}

BOOST_AUTO_TEST_CASE(replicas_of_a_place_are_compared) {
  std::mutex mutex;
  train(4, 2, StateDivision::none, [&](const Replica& replica) {
    tensor::Device& device = replica.stage.stream_of(stages::Pass::forward).device();
    const auto spoil = [&](bool is_expert) {
      for (const Parameter& parameter : replica.stage.parameters())
        if (parameter.is_expert == is_expert) return opened(parameter.weight).as<float>()[0] += 1;
      return 0.0f;
    };
    const auto compare = [&](stages::Compared compared) {
      ThreadGroup& group =
          compared == stages::Compared::experts ? replica.experts : replica.replicas;
      const auto found = stages::compare_weights(replica.stage, group, device, compared);
      if (!found.all_equal)
        stages::copy_state(replica.stage, group, found.reference, device, compared);
      return found;
    };
    using enum stages::Compared;
    const auto equal = [&](const stages::WeightComparison& found) {
      const std::lock_guard lock(mutex);
      BOOST_TEST(found.all_equal);
    };
    equal(compare(others));
    equal(compare(experts));
    if (replica.number == 3) spoil(true);
    equal(compare(others));
    const auto found = compare(experts);
    {
      const std::lock_guard lock(mutex);
      BOOST_TEST(found.all_equal == (replica.number % 2 == 0));
      BOOST_TEST(found.count == (replica.number == 3 ? 1 : 0));
    }
    equal(compare(experts));
    if (replica.number == 2) spoil(false);
    const auto other = compare(others);
    {
      const std::lock_guard lock(mutex);
      BOOST_TEST(!other.all_equal);
      BOOST_TEST(other.count == (replica.number == 2 ? 1 : 0));
    }
    equal(compare(others));
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
