#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "stages/decoder/stage/transformer_stage.h"
#include "stages/replicas/data_parallel.h"
#include "tests/support/stage_passes.h"
#include "tests/support/test_device.h"

// What a replica of 64 asks its groups for in a step of a model of a million parameters.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(many_replicas_test)

namespace {

using stages::Pass;
using stages::StateDivision;
using tensor::Tensor;

constexpr int kReplicas = 64;
constexpr int kMicrobatches = 2;
constexpr std::int64_t kTokens = 8;

/// A collective, and the bytes of the whole tensor.
struct Asked {
  std::string operation;
  std::int64_t bytes = 0;
  bool operator==(const Asked&) const = default;
};

/// A member of a group whose others are not there: it notes what it is asked for, and moves
/// nothing.
class NotingGroup final : public tensor::ProcessGroup {
 public:
  NotingGroup(int member, std::vector<Asked>& asked) : member_(member), asked_(asked) {}

  int size() const override { return kReplicas; }
  int member() const override { return member_; }
  std::unique_ptr<tensor::Work> start(tensor::Stream&,
                                      const tensor::CollectiveCall& call) override {
    const bool takes_all = call.operation == tensor::Operation::reduce_scatter ||
                           call.operation == tensor::Operation::all_to_all;
    const auto& whole = takes_all ? call.in : call.out;
    asked_.push_back({tensor::name_of(call.operation),
                      whole.empty() ? 0 : static_cast<std::int64_t>(whole.front().num_bytes())});
    return std::make_unique<Done>();
  }
  void abort(const std::string&) override {}
  std::string fault() const override { return ""; }

 private:
  struct Done final : tensor::Work {
    bool done() const override { return true; }
    void wait() override {}
    void wait(tensor::Stream&) override {}
    double finished_s() const override { return 0; }
  };

  const int member_;
  std::vector<Asked>& asked_;
};

stages::StageSpec million_parameters(StateDivision division, int member) {
  stages::StageSpec spec{
      .model = {.hidden_size = 128,
                .intermediate_size = 344,
                .num_hidden_layers = 4,
                .num_attention_heads = 4,
                .num_key_value_heads = 4,
                .head_dim = 32,
                .vocab_size = 1000},
      .chunks = {{.first_layer = 0, .end_layer = 4, .embedding = true, .head = true, .live = 1}},
      .seq_len = kTokens,
      .global_tokens = kTokens * kMicrobatches * kReplicas};
  if (division == StateDivision::none) return spec;
  spec.state = {.count = kReplicas, .index = member, .buckets = {.size = 100'000}};
  spec.state.gradients = division >= StateDivision::optim_grads;
  spec.state.weights = division == StateDivision::optim_grads_params;
  return spec;
}

/// What a replica asks for in a step: its group of gradients and norms, and those of weights.
struct Step {
  std::vector<Asked> replicas, forward, backward;
  std::int64_t elements = 0;          // of the stage's layout
  std::vector<std::int64_t> buckets;  // elements of each
  bool operator==(const Step&) const = default;
};

Step step_of(StateDivision division, int member) {
  const auto device = make_test_device();
  const auto stage = make_transformer_stage(million_parameters(division, member), *device);
  Step step;
  NotingGroup replicas(member, step.replicas), forward(member, step.forward),
      backward(member, step.backward);
  const bool gathers = division == StateDivision::optim_grads_params;
  const auto all = stages::make_data_parallel(
      {.division = division, .buckets = {.size = 100'000}, .microbatches = kMicrobatches}, *stage,
      {.replicas = {.group = &replicas, .name = "replicas"},
       .forward_weights = gathers ? &forward : nullptr,
       .backward_weights = gathers ? &backward : nullptr},
      *device);
  for (const stages::StateBucket& bucket : stage->buckets()) {
    step.buckets.push_back(bucket.range.size());
    step.elements += bucket.range.size();
  }
  stages::UnitOrder order;
  const auto add_reads = [&](std::vector<int>& units, Pass pass) {
    std::span<const int> last;
    for (const stages::NodeEffects& node : stage->nodes(0, pass)) {
      if (node.reads.empty() || std::ranges::equal(node.reads, last)) continue;
      units.insert(units.end(), node.reads.begin(), node.reads.end());
      last = node.reads;
    }
  };
  for (int m = 0; m < kMicrobatches; ++m) {
    add_reads(order.forward, Pass::forward);
    add_reads(order.backward, Pass::backward);
  }
  const auto pinned = device->allocate(sizeof(double), tensor::MemoryKind::pinned);
  const std::vector<std::int32_t> tokens(kTokens, 1);
  all->begin_step();
  all->expect(order);
  stage->begin_step();
  for (int m = 0; m < kMicrobatches; ++m) {
    run_forward(*stage,
                {.ids = tokens, .targets = tokens, .loss = pinned.view(tensor::DType::f64, {1})});
    const auto nodes = stage->nodes(0, Pass::backward);
    for (int node = 0; node < static_cast<int>(nodes.size()); ++node) {
      stage->backward_node({.pass = Pass::backward}, node);
      const auto& end = nodes[static_cast<std::size_t>(node)];
      const bool is_last = m + 1 == kMicrobatches;
      if (!end.gradients.empty())
        all->added(end, is_last ? stages::Microbatch::last : stages::Microbatch::earlier,
                   stage->ran(0, 0));
      all->progress();
    }
  }
  stage->synchronize();
  all->finish();
  all->apply({});
  all->share_weights();
  all->complete_weights();
  return step;
}

std::vector<Asked> of_each(const char* operation, const std::vector<std::int64_t>& elements) {
  std::vector<Asked> asked;
  for (const std::int64_t size : elements) asked.push_back({operation, 4 * size});
  return asked;
}
std::vector<Asked> twice(std::vector<Asked> once) {
  const std::vector<Asked> again = once;
  once.insert(once.end(), again.begin(), again.end());
  return once;
}
std::vector<Asked> in_turn(std::vector<Asked> first, const std::vector<Asked>& then) {
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

}  // namespace

/// With buckets that are numbered in the order in which backwards end with them, B of them with E
/// elements, and M microbatches:
///   optim               B reduce-scatters, then B all-gathers, 4 E bytes each
///   optim_grads         M B reduce-scatters, 4 M E bytes, then B all-gathers
///   optim_grads_params  M B reduce-scatters; M B gathers for forwards, in the reverse order, and
///                       M (B - 1) for backwards, which read no embedding
/// less the gathers of buckets that are still in their slots, here none. All members call the same.
BOOST_AUTO_TEST_CASE(a_replica_of_many_asks_for_what_the_formulas_say) {
  for (const StateDivision division :
       {StateDivision::optim, StateDivision::optim_grads, StateDivision::optim_grads_params}) {
    const Step first = step_of(division, 0);
    BOOST_TEST(first.elements > 1'000'000);
    for (const int member : {31, kReplicas - 1}) BOOST_TEST((step_of(division, member) == first));
    const auto scatters = of_each("reduce-scatter", first.buckets);
    const auto gathers = of_each("all-gather", first.buckets);
    if (division == StateDivision::optim) {
      BOOST_TEST((first.replicas == in_turn(scatters, gathers)));
    } else if (division == StateDivision::optim_grads) {
      BOOST_TEST((first.replicas == in_turn(twice(scatters), gathers)));
    } else {
      BOOST_TEST((first.replicas == twice(scatters)));
      // Six buckets in two slots, so that none stays; backwards gather all but the embedding.
      BOOST_REQUIRE(first.buckets.size() == 6u);
      std::vector<std::int64_t> up(first.buckets.rbegin(), first.buckets.rend());
      BOOST_TEST((first.forward == twice(of_each("all-gather", up))));
      const std::vector<std::int64_t> down(first.buckets.begin(), first.buckets.end() - 1);
      BOOST_TEST((first.backward == twice(of_each("all-gather", down))));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
