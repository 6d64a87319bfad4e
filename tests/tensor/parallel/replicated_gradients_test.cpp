#include "tensor/parallel/replicated_gradients.h"

#include "tests/tensor/shards.h"

namespace troupe::tensor {
namespace {

constexpr std::int64_t kT = 24, kC = 8;

BOOST_AUTO_TEST_CASE(a_part_of_a_gradient_is_of_own_tokens_or_own_heads) {
  ThreadGroup group(std::make_shared<Meeting>(2), 0, Moves::at_call);
  const TensorParallel one, plain{.group = &group},
      split{.group = &group, .sequence_parallel = true};
  for (const Replicated parameter : {Replicated::norm, Replicated::row_bias}) {
    BOOST_TEST(!has_partial_gradient(parameter, one));
    BOOST_TEST(!has_partial_gradient(parameter, plain));
    BOOST_TEST(has_partial_gradient(parameter, split));
  }
  BOOST_TEST(!has_partial_gradient(Replicated::head_norm, one));
  BOOST_TEST(has_partial_gradient(Replicated::head_norm, plain));
  BOOST_TEST(has_partial_gradient(Replicated::head_norm, split));
}

// An average would be the gradient divided by the number of shards.
BOOST_AUTO_TEST_CASE(a_norm_between_divided_tokens_gets_the_gradient_of_all_tokens) {
  const Values x = normal_values(DType::f32, kT * kC, "x"), w = normal_values(DType::f32, kC, "w");
  const Values dy = normal_values(DType::f32, kT * kC, "dy");
  const Values expected = reference::rms_norm_backward(dy, x, w, 1e-5f).dw;
  for_each_group([&](int size, Moves moves) {
    const auto gradients = on_shards(size, moves, [&](Host& host, ThreadGroup& group) {
      const TensorParallel parallel{.group = &group, .sequence_parallel = true};
      const std::int64_t rows = kT / size;
      const auto first = static_cast<std::size_t>(group.member() * rows);
      const auto own = [&](const Values& values) {
        return tensor_of(host, DType::f32, {rows, kC},
                         rows_of(values, kC, first, static_cast<std::size_t>(rows)));
      };
      const Tensor weight = tensor_of(host, DType::f32, {kC}, w);
      const Tensor own_x = own(x), y = host.zeros(DType::f32, {rows, kC});
      const Tensor rstd = host.zeros(DType::f32, {rows}), dw = host.zeros(DType::f32, {kC});
      host.ops().rms_norm(host.stream(), own_x, weight, 1e-5f, y, rstd);
      host.ops().rms_norm_backward(host.stream(), own(dy), own_x, weight, rstd, {}, y, dw);
      wait(sum_replicated_gradients(host.stream(), parallel, {&dw, 1}), host.stream());
      return Host::read(dw);
    });
    for (const Values& gradient : gradients) {
      check_near(gradient, expected, 2e-6);
      BOOST_TEST(gradient == gradients.front());
    }
  });
}

BOOST_AUTO_TEST_CASE(all_gradients_go_in_one_collective) {
  const auto traffic = on_shards(3, Moves::at_wait, [](Host& host, ThreadGroup& group) {
    const TensorParallel parallel{.group = &group};
    const std::vector<Tensor> gradients{host.zeros(DType::f32, {8}), host.zeros(DType::f32, {5})};
    wait(sum_replicated_gradients(host.stream(), parallel, gradients), host.stream());
    wait(sum_replicated_gradients(host.stream(), parallel, {}), host.stream());
    return group.traffic();
  });
  BOOST_TEST((traffic[0] == std::map<std::string, Traffic>{{"all_reduce", {1, 13 * 4}}}));
}

/// What each of `size` shards has after the sum of copies; shard r starts with r + 1 everywhere.
std::vector<Values> summed_copies(int size, int copies) {
  return on_shards(size, Moves::at_wait, [&](Host& host, ThreadGroup& group) {
    const TensorParallel parallel{.group = &group};
    const Tensor gradient =
        tensor_of(host, DType::f32, {2, 3}, Values(6, static_cast<double>(group.member() + 1)));
    const std::int64_t elements = copies_scratch_elements(parallel, copies, 6);
    const Tensor scratch = host.normal(DType::f32, {elements}, "left over");
    wait(sum_copies(host.stream(), parallel, copies, gradient, scratch), host.stream());
    take_copies(host.stream(), parallel, copies, scratch, gradient);
    return Host::read(gradient);
  });
}

BOOST_AUTO_TEST_CASE(shards_of_one_head_sum_its_gradient_and_no_other) {
  const auto pairs = summed_copies(4, 2);
  for (const std::size_t shard : {0u, 1u}) BOOST_TEST(pairs[shard] == Values(6, 1 + 2));
  for (const std::size_t shard : {2u, 3u}) BOOST_TEST(pairs[shard] == Values(6, 3 + 4));
  for (const Values& all : summed_copies(3, 3)) BOOST_TEST(all == Values(6, 1 + 2 + 3));
  const auto apart = summed_copies(2, 1);
  BOOST_TEST(apart[0] == Values(6, 1));
  BOOST_TEST(apart[1] == Values(6, 2));
}

BOOST_AUTO_TEST_CASE(every_parameter_counts_once_in_the_norm) {
  const auto meeting = std::make_shared<Meeting>(4);
  for (const int copies : {1, 2, 4}) {
    int counted = 0;
    for (int shard = 0; shard < 4; ++shard) {
      ThreadGroup group(meeting, shard, Moves::at_call);
      const bool counts = counts_in_norm({.group = &group}, copies);
      if (copies == 4) BOOST_TEST(counts == (shard == 0));
      counted += counts;
    }
    BOOST_TEST(counted == 4 / copies);
  }
  BOOST_TEST(counts_in_norm({}, 1));
}

}  // namespace
}  // namespace troupe::tensor
