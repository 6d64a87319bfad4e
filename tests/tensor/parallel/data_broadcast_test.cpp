#include "tensor/parallel/data_broadcast.h"

#include "tensor/errors/error.h"
#include "tests/tensor/shards.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(data_broadcast_test)

namespace {

struct Received {
  std::vector<Shape> shapes;
  std::vector<std::int32_t> elements;
  std::map<std::string, Traffic> traffic;
};

Received run(Host& host, ThreadGroup& group, const std::vector<Tensor>& data, std::size_t count) {
  DataBroadcast broadcast(host.device(), group);
  Received received;
  for (int again = 0; again < 2; ++again) {
    received = {};
    for (const Tensor& x : broadcast.run(host.stream(), data, count, DType::i32)) {
      received.shapes.push_back(x.shape);
      received.elements.insert(received.elements.end(), x.as<std::int32_t>(),
                               x.as<std::int32_t>() + x.num_elements());
    }
  }
  received.traffic = group.traffic();
  return received;
}

BOOST_AUTO_TEST_CASE(all_members_get_the_tensors_of_member_0) {
  for_each_group([](int size, Moves moves) {
    const auto received = on_shards(size, moves, [](Host& host, ThreadGroup& group) {
      std::vector<Tensor> data;
      if (group.member() == 0) {
        data = {host.ids({1, 2, 3, 4, 5, 6}), host.ids({}), host.ids({7})};
        data[0].shape = {1, 2, 3, 1};
        data[2].shape = {};
      }
      return run(host, group, data, 3);
    });
    for (const Received& one : received) {
      BOOST_TEST((one.shapes == std::vector<Shape>{{1, 2, 3, 1}, {0}, {}}));
      BOOST_TEST((one.elements == std::vector<std::int32_t>{1, 2, 3, 4, 5, 6, 7}));
      // Twice the shapes and twice all elements, whatever the number of tensors.
      BOOST_TEST((one.traffic ==
                  std::map<std::string, Traffic>{{"broadcast", {4, 2 * (3 * 5 * 8 + 7 * 4)}}}));
    }
  });
}

BOOST_AUTO_TEST_CASE(a_wrong_type_is_an_error_on_every_member) {
  const auto messages = on_shards(3, Moves::at_wait, [](Host& host, ThreadGroup& group) {
    std::vector<Tensor> data;
    if (group.member() == 0) data = {host.ids({1}), host.zeros(DType::f32, {2})};
    try {
      run(host, group, data, 2);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  });
  for (const std::string& message : messages)
    BOOST_TEST(message == "tensor 1 of the data to broadcast is float32; all must be int32");
}

// Megatron-LM exchanges the sizes on the group of all shards whatever group it is given.
BOOST_AUTO_TEST_CASE(two_groups_of_a_thread_do_not_disturb_each_other) {
  const auto received = on_shards(2, Moves::at_call, [&](Host& host, ThreadGroup& group) {
    ThreadGroup alone(std::make_shared<Meeting>(1), 0, Moves::at_call);
    const Received own = run(host, alone, {host.ids({group.member()})}, 1);
    BOOST_ASSERT(group.traffic().empty());
    return own;
  });
  for (int member = 0; member < 2; ++member)
    BOOST_TEST((received[static_cast<std::size_t>(member)].elements == std::vector{member}));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
