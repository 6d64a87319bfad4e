#include "transport/memory/slot_pool.h"

#include <boost/test/unit_test.hpp>
#include <vector>

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(slot_pool_test)

using transport::SlotPool;

BOOST_AUTO_TEST_CASE(what_is_given_back_serves_again_until_it_is_cleared) {
  const auto pool = std::make_shared<SlotPool>();
  auto first = pool->take(4096, true);
  const auto* const data = first->data();
  auto second = pool->take(4096, true);
  BOOST_TEST((second->data() != data));
  first.reset();
  first = pool->take(4000, true);
  BOOST_TEST((first->data() == data));
  BOOST_TEST(first->bytes() == 4096u);
  first.reset();
  pool->clear();
  BOOST_TEST((pool->take(100, true)->bytes() == 100u));
}

BOOST_AUTO_TEST_CASE(memory_of_about_the_size_is_taken_the_smallest_first) {
  const auto pool = std::make_shared<SlotPool>();
  pool->prepare(std::vector<std::size_t>{100000, 6000, 4096}, true);
  BOOST_TEST(pool->take(4000, true)->bytes() == 4096u);
  const auto small = pool->take(4000, true);
  const auto next = pool->take(4000, true);
  BOOST_TEST(next->bytes() == 6000u);
  BOOST_TEST(pool->take(4000, true)->bytes() == 4000u);  // not the memory of a hundred thousand
}

BOOST_AUTO_TEST_CASE(memory_that_somebody_has_mapped_is_not_used_again) {
  const auto pool = std::make_shared<SlotPool>();
  auto memory = pool->take(4096, true);
  BOOST_REQUIRE(memory->name().id != transport::SegmentName::kNone);
  const transport::SegmentName name = memory->name();
  const auto sender = transport::map_slots(name, 4096);
  BOOST_REQUIRE(sender);
  memory.reset();
  memory = pool->take(4096, true);
  BOOST_TEST(memory->name().id != name.id);
}

BOOST_AUTO_TEST_CASE(private_memory_is_not_given_to_who_asks_for_shared) {
  const auto pool = std::make_shared<SlotPool>();
  auto memory = pool->take(4096, false);
  const auto* const data = memory->data();
  BOOST_TEST(memory->name().id == transport::SegmentName::kNone);
  memory.reset();
  memory = pool->take(4096, true);
  BOOST_TEST(memory->name().id != transport::SegmentName::kNone);
  BOOST_TEST((pool->take(4096, false)->data() == data));
  pool->clear();
  memory.reset();
  BOOST_TEST(pool->take(4096, false)->name().id != transport::SegmentName::kNone);
}

BOOST_AUTO_TEST_CASE(an_old_name_maps_nothing_once_the_memory_serves_again) {
  const auto pool = std::make_shared<SlotPool>();
  auto memory = pool->take(4096, true);
  const transport::SegmentName old = memory->name();
  memory.reset();
  memory = pool->take(4096, true);
  BOOST_TEST(memory->name().id == old.id);
  BOOST_TEST(!transport::map_slots(old, 4096));
  BOOST_TEST(!!transport::map_slots(memory->name(), 4096));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
