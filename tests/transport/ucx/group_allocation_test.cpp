#include <atomic>
#include <boost/test/unit_test.hpp>

#include "tests/support/counted_new.h"
#include "tests/transport/ucx/group_members.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(group_allocation_test)

namespace {

BOOST_AUTO_TEST_CASE(collectives_allocate_nothing_after_the_first_ones) {
  constexpr std::size_t kCount = 300'000;
  constexpr int kSteps = 20, kWarmUp = 10;
  GroupMembers members(2);
  std::atomic<long> before = 0, after = 0;
  members.run([&](const GroupMember& self) {
    std::vector<float> a(kCount, 1), b(kCount, 1), c(100, 1), d(kCount, 1), wide(2 * kCount, 1);
    const std::vector<tensor::Tensor> many{view(a), view(c), view(b)};
    const std::vector<std::int64_t> counts{100'000, 200'000};
    const auto barrier = [&] { self.group.barrier(self.stream)->wait(); };
    for (int step = 0; step < kSteps; ++step) {
      if (step == kWarmUp) {
        barrier();
        if (self.number == 0) before = allocations.load();
        barrier();
      }
      const auto first = self.group.all_reduce_many(self.stream, many);
      const auto second = self.group.all_gather(self.stream, view(d), view(wide));
      second->wait();
      first->wait();
      self.group.broadcast(self.stream, view(c), 1)->wait();
      self.group
          .reduce_scatter(
              self.stream, view(a),
              view(b, 0, static_cast<std::size_t>(counts[static_cast<std::size_t>(self.number)])),
              tensor::Reduction::average, counts)
          ->wait();
      self.group.all_to_all(self.stream, view(a), view(b))->wait();
    }
    barrier();
    if (self.number == 0) after = allocations.load();
    barrier();
  });
  BOOST_TEST(after - before == 0);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
