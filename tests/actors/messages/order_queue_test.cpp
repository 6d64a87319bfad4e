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
