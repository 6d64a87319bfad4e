#include "tensor/parallel/megatron/deferred_weight_gradients.h"

#include "tests/tensor/shards.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(deferred_weight_gradients_test)

namespace {

constexpr std::int64_t kT = 12, kI = 5, kO = 24;
constexpr int kMicrobatches = 7;

struct Shard {
  Values dw, db;
  std::size_t most_waiting = 0;
};

/// The weight gradients of seven microbatches; limit 0 defers nothing.
Shard run(Host& host, const TensorParallel& parallel, std::size_t limit) {
  ColumnParallelLinear layer(host.device(), {.rows = kT, .in = kI, .out = kO}, parallel);
  host.give_scratch(layer);
  const std::int64_t out = layer.shard_shape().out;
  const std::int64_t rows = parallel.splits_tokens() ? kT / parallel.size : kT;
  const DeferredWeightGradients::Target target{
      .dw = host.normal(DType::f32, {out, kI}, "overwritten"),
      .db = host.normal(DType::f32, {out}, "overwritten"),
      .x_full = {host.zeros(DType::f32, {kT, kI}), host.zeros(DType::f32, {kT, kI})}};
  DeferredWeightGradients deferred(layer, target, std::max<std::size_t>(1, limit));
  Shard shard;
  for (int i = 0; i < kMicrobatches; ++i) {
    const std::string name = std::to_string(parallel.shard) + " " + std::to_string(i);
    deferred.defer(host.stream(), {.x = host.normal(DType::f32, {rows, kI}, "x" + name),
                                   .dy = host.normal(DType::f32, {kT, out}, "dy" + name),
                                   .gradient = i == 0 ? Gradient::first : Gradient::added});
    shard.most_waiting = std::max(shard.most_waiting, deferred.waiting());
    if (limit == 0) deferred.compute_all(host.stream());
  }
  deferred.compute_all(host.stream());
  BOOST_ASSERT(deferred.waiting() == 0);
  shard.dw = Host::read(target.dw);
  shard.db = Host::read(target.db);
  return shard;
}

BOOST_AUTO_TEST_CASE(no_limit_changes_a_bit) {
  for (const bool sequence_parallel : {false, true}) {
    for_each_group([&](int size, Moves moves) {
      const auto with = [&](std::size_t limit) {
        return on_shards(size, moves, [&](Host& host, ThreadGroup& group) {
          const TensorParallelGroups groups{.forward = &group, .backward = &group};
          return run(host, shards_of(groups, sequence_parallel), limit);
        });
      };
      const auto at_once = with(0);
      for (const std::size_t limit : {1u, 2u, 3u, 7u, 20u}) {
        const auto deferred = with(limit);
        for (std::size_t i = 0; i < at_once.size(); ++i) {
          BOOST_TEST(deferred[i].dw == at_once[i].dw);
          BOOST_TEST(deferred[i].db == at_once[i].db);
          BOOST_TEST(deferred[i].most_waiting == std::min<std::size_t>(limit, kMicrobatches));
        }
      }
    });
  }
}

BOOST_AUTO_TEST_CASE(the_gradient_is_that_of_all_microbatches) {
  Host host(1), again(1);
  Values expected(kO * kI);
  for (int i = 0; i < kMicrobatches; ++i) {
    const std::string name = "0 " + std::to_string(i);
    const Values x = Host::read(again.normal(DType::f32, {kT, kI}, "x" + name));
    const Values dy = Host::read(again.normal(DType::f32, {kT, kO}, "dy" + name));
    const Values w(kO * kI);
    const auto gradient = reference::linear_backward(dy, x, w, kT, kI, kO);
    for (std::size_t k = 0; k < expected.size(); ++k) expected[k] += gradient.dw[k];
  }
  check_near(run(host, {}, 3).dw, expected, 2e-6);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
