#include "actors/messages/order_queue.h"

#include <boost/test/unit_test.hpp>
#include <thread>
#include <vector>

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(order_queue_test)

BOOST_AUTO_TEST_CASE(orders_of_one_producer_keep_their_order) {
  OrderQueue<int> queue;
  std::thread producer([&] {
    for (int i = 0; i < 10000; ++i) queue.push(i);
  });
  for (int i = 0; i < 10000; ++i) BOOST_REQUIRE(queue.pop() == i);
  producer.join();
}

BOOST_AUTO_TEST_CASE(an_order_is_taken_only_if_it_is_the_one_that_is_waited_for) {
  OrderQueue<int> queue;
  std::thread producer([&] { queue.push(1); });
  const auto is_one = [](int order) { return order == 1; };
  BOOST_TEST((queue.pop_if(is_one) == 1));  // waits for it
  producer.join();
  queue.push(2);
  queue.push(1);
  BOOST_TEST(!queue.pop_if(is_one).has_value());
  BOOST_TEST(queue.pop() == 2);
  BOOST_TEST(queue.pop() == 1);
}

BOOST_AUTO_TEST_CASE(no_order_of_several_producers_is_lost) {
  OrderQueue<int> queue;
  std::vector<std::thread> producers;
  for (int p = 0; p < 4; ++p)
    producers.emplace_back([&queue, p] {
      for (int i = 0; i < 1000; ++i) queue.push(p * 1000 + i);
    });
  std::vector<int> next(4, 0);
  for (int i = 0; i < 4000; ++i) {
    const int value = queue.pop();
    BOOST_REQUIRE(value % 1000 == next[static_cast<std::size_t>(value / 1000)]++);
  }
  for (auto& producer : producers) producer.join();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
