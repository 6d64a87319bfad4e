#include "tensor/libraries/gpu_choice.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "tensor/errors/error.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(gpu_choice_test)

namespace {

using Order = std::vector<int>;
using Chosen = std::vector<std::string>;

/// Four GPUs, of which 0 and 2, and 1 and 3, are peers.
std::vector<DeviceInfo> two_pairs() {
  std::vector<DeviceInfo> devices;
  for (int i = 0; i < 4; ++i)
    devices.push_back({.name = "H200", .uuid = "GPU-" + std::to_string(i) + "a", .peers = {i ^ 2}});
  return devices;
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_are_taken_along_their_peers) {
  BOOST_TEST((gpus_in_order(two_pairs(), {}) == Order{0, 2, 1, 3}));
  auto all_peers = two_pairs();
  for (int i = 0; i < 4; ++i)
    all_peers[static_cast<std::size_t>(i)].peers = {(i + 1) % 4, (i + 2) % 4, (i + 3) % 4};
  BOOST_TEST((gpus_in_order(all_peers, {}) == Order{0, 1, 2, 3}));
  BOOST_TEST(gpus_in_order({}, {}).empty());
}

BOOST_AUTO_TEST_CASE(those_that_are_chosen_are_taken_in_that_order) {
  BOOST_TEST((gpus_in_order(two_pairs(), Chosen{"3", "GPU-0a"}) == Order{3, 0}));
  BOOST_TEST((gpus_in_order(two_pairs(), Chosen{"GPU-2"}) == Order{2}));
}

BOOST_AUTO_TEST_CASE(workers_take_them_by_turns) {
  const Order order{3, 0};
  Order taken;
  for (int worker = 0; worker < 5; ++worker)
    taken.push_back(turn_of(worker, std::span<const int>(order)));
  BOOST_TEST((taken == Order{3, 0, 3, 0, 3}));
}

BOOST_AUTO_TEST_CASE(one_that_has_failed_is_left_for_the_one_with_the_most_memory_free) {
  auto devices = two_pairs();
  for (std::size_t i = 0; i < 4; ++i) devices[i].free_bytes = i == 2 ? 80 : 10;
  const Order order{0, 1, 2, 3};
  BOOST_TEST(gpu_of_turn(1, order, devices, {}) == 1);
  BOOST_TEST(gpu_of_turn(1, order, devices, Chosen{"GPU-1a"}) == 2);
  BOOST_TEST(gpu_of_turn(4, order, devices, Chosen{"GPU-1a"}) == 0);
  BOOST_TEST(gpu_of_turn(2, order, devices, Chosen{"GPU-1a", "GPU-2a"}) == 0);
  BOOST_CHECK_EXCEPTION(gpu_of_turn(0, Order{1}, devices, Chosen{"GPU-1a"}), Error,
                        [](const Error& error) {
                          return error.kind() == ErrorKind::unavailable &&
                                 std::string(error.what()).find("GPU-1a") != std::string::npos;
                        });
}

BOOST_AUTO_TEST_CASE(one_that_is_not_there_is_named_with_those_that_are) {
  const auto refuses = [](const Chosen& chosen, const std::vector<std::string>& words) {
    BOOST_CHECK_EXCEPTION(gpus_in_order(two_pairs(), chosen), Error, [&](const Error& error) {
      const std::string text = error.what();
      return error.kind() == ErrorKind::unavailable &&
             std::ranges::all_of(words, [&](const std::string& word) {
               return text.find(word) != std::string::npos;
             });
    });
  };
  refuses({"7"}, {"gpus", "7", "0 (H200, GPU-0a)", "GPU-3a"});
  refuses({"-1"}, {"-1"});
  refuses({"GPU-9"}, {"GPU-9", "GPU-3a"});
  refuses({"GPU-"}, {"4 GPUs"});
  refuses({""}, {"UUID"});
  refuses({"1", "GPU-1a"}, {"GPU 1", "twice"});
  BOOST_TEST(is_gpu_instance("MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f"));
  BOOST_TEST(!is_gpu_instance("GPU-0a"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
