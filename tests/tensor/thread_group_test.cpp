#include "tests/tensor/thread_group.h"

#include "tests/tensor/shards.h"

// What other tests assume of the group of threads.

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(thread_group_test)

namespace {

template <typename Body>
std::vector<Values> outputs(const Body& body) {
  return on_shards(3, Moves::at_wait, [&](Host& host, ThreadGroup& group) {
    const Tensor in =
        tensor_of(host, DType::f32, {3}, {group.member() + 1.0, group.member() + 10.0, -1.0});
    return Host::read(body(host, group, in));
  });
}

BOOST_AUTO_TEST_CASE(reductions_are_of_all_members) {
  const auto reduced = [](Reduction reduction) {
    return outputs([=](Host& host, ThreadGroup& group, const Tensor& in) {
      group.all_reduce(host.stream(), in, reduction)->wait();
      return in;
    });
  };
  for (const Values& x : reduced(Reduction::sum)) BOOST_TEST((x == Values{6, 33, -3}));
  for (const Values& x : reduced(Reduction::max)) BOOST_TEST((x == Values{3, 12, -1}));
  for (const Values& x : reduced(Reduction::average)) BOOST_TEST((x == Values{2, 11, -1}));
}

BOOST_AUTO_TEST_CASE(bfloat16_is_added_in_float32_and_rounded_once) {
  const auto sums = on_shards(3, Moves::at_call, [](Host& host, ThreadGroup& group) {
    // One by one in bfloat16 the small numbers would get lost.
    const Tensor x = tensor_of(host, DType::bf16, {1}, {group.member() == 0 ? 256.0 : 1.0});
    group.all_reduce(host.stream(), x, Reduction::sum)->wait();
    return Host::read(x);
  });
  for (const Values& sum : sums) BOOST_TEST(sum[0] == 258);
}

BOOST_AUTO_TEST_CASE(scatters_and_exchanges_go_by_member) {
  const auto scattered = outputs([](Host& host, ThreadGroup& group, const Tensor& in) {
    const Tensor out = host.zeros(DType::f32, {1});
    group.reduce_scatter(host.stream(), in, out, Reduction::sum)->wait();
    return out;
  });
  BOOST_TEST((scattered == std::vector<Values>{{6}, {33}, {-3}}));
  const auto exchanged = outputs([](Host& host, ThreadGroup& group, const Tensor& in) {
    const Tensor out = host.zeros(DType::f32, {3});
    group.all_to_all(host.stream(), in, out)->wait();
    return out;
  });
  BOOST_TEST((exchanged == std::vector<Values>{{1, 2, 3}, {10, 11, 12}, {-1, -1, -1}}));
  const auto root = outputs([](Host& host, ThreadGroup& group, const Tensor& in) {
    group.broadcast(host.stream(), in, 2)->wait();
    return in;
  });
  for (const Values& x : root) BOOST_TEST((x == Values{3, 12, -1}));
}

BOOST_AUTO_TEST_CASE(data_moves_no_earlier_than_it_is_waited_for) {
  const auto before = outputs([](Host& host, ThreadGroup& group, const Tensor& in) {
    const auto work = group.all_reduce(host.stream(), in, Reduction::sum);
    const Tensor copy = host.zeros(DType::f32, {3});
    host.ops().copy(host.stream(), in, copy);
    work->wait();
    return copy;
  });
  BOOST_TEST((before[1] == Values{2, 11, -1}));
}

BOOST_AUTO_TEST_CASE(misuse_ends_the_group_for_all_members) {
  const auto shape = [](Host& host, ThreadGroup& group) {
    const Tensor x = host.zeros(DType::f32, {2});
    group.member() == 0 ? group.all_reduce(host.stream(), x, Reduction::sum)->wait()
                        : group.broadcast(host.stream(), x, 0)->wait();
    return 0;
  };
  BOOST_CHECK_THROW(on_shards(2, Moves::at_call, shape), Error);
  const auto dropped = [](Host& host, ThreadGroup& group) {
    const Tensor x = host.zeros(DType::f32, {2});
    if (group.member() == 0) group.all_reduce(host.stream(), x, Reduction::sum);
    group.barrier(host.stream())->wait();
    return 0;
  };
  BOOST_CHECK_THROW(on_shards(2, Moves::at_wait, dropped), Error);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
