#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <vector>

#include "tests/transport/ucx/group_members.h"
#include "transport/collectives/collective_memory.h"

// The memory of groups among hosts.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(group_room_test)

namespace {

using transport::all_reduce_slots_bytes;
using transport::CollectiveMemory;

constexpr int kMembers = 3;

/// A group in a room, with a thread for each member.
class RoomMembers {
 public:
  explicit RoomMembers(const CollectiveMemory& room) : nodes_(kMembers), streams_(kMembers) {
    for (int rank = 0; rank < kMembers; ++rank)
      groups_.push_back(nodes_.node(rank).make_group(kGroupRun, 1, 5, "g", {0, 1, 2}, rank, room));
  }

  /// Each member starts all-reduces of these numbers of elements, and waits for them only then.
  /// Returns whether the sums are right.
  bool reduce(const std::vector<std::size_t>& sizes) {
    std::vector<char> right(kMembers);
    std::vector<std::thread> threads;
    for (std::size_t member = 0; member < kMembers; ++member)
      threads.emplace_back([&, member] {
        std::vector<std::vector<float>> all;
        for (const std::size_t size : sizes) all.emplace_back(size, static_cast<float>(member + 1));
        std::vector<std::unique_ptr<tensor::Work>> works;
        for (auto& x : all) works.push_back(groups_[member]->all_reduce(streams_[member], view(x)));
        for (const auto& work : works) work->wait();
        right[member] = std::ranges::all_of(
            all, [](const auto& x) { return x == std::vector<float>(x.size(), 6.0f); });
      });
    for (std::thread& thread : threads) thread.join();
    return std::ranges::all_of(right, [](char is) { return is != 0; });
  }
  /// Bytes of each member's group, which are the same.
  std::int64_t bytes() const {
    for (const auto& group : groups_) BOOST_TEST(group->bytes() == groups_.front()->bytes());
    return groups_.front()->bytes();
  }

 private:
  UcxNodes nodes_;
  std::vector<MemberStream> streams_;
  std::vector<std::unique_ptr<tensor::ProcessGroup>> groups_;
};

BOOST_AUTO_TEST_CASE(a_group_keeps_to_its_room_however_much_is_under_way) {
  const std::size_t size = 60'000;
  const CollectiveMemory room{.at_once = 2,
                              .slots_bytes = all_reduce_slots_bytes(size, sizeof(float), kMembers)};
  // A slot of 20,000 elements for each of two members, in each of two phases, twice.
  BOOST_TEST(room.bytes() == 2 * 2 * 2 * 80'000);
  RoomMembers members(room);
  BOOST_TEST(members.bytes() == room.bytes());
  for (int i = 0; i < 3; ++i) BOOST_TEST(members.reduce(std::vector<std::size_t>(9, size)));
  BOOST_TEST(members.bytes() == room.bytes());
}

BOOST_AUTO_TEST_CASE(a_collective_that_finds_too_little_room_gets_more) {
  RoomMembers members({.at_once = 1, .slots_bytes = 1024});
  BOOST_TEST(members.bytes() == 1024);
  BOOST_TEST(members.reduce({250, 2'000'000, 0, 10, 300'000}));
  // Four rounds of the largest pieces.
  BOOST_TEST(members.bytes() == 4 * 2 * 2 * (256 << 10));
}

BOOST_AUTO_TEST_CASE(a_group_without_a_room_takes_memory_for_four_collectives_with_the_first) {
  RoomMembers members({});
  BOOST_TEST(members.bytes() == 0);
  BOOST_TEST(members.reduce({}));
  BOOST_TEST(members.bytes() == 0);
  BOOST_TEST(members.reduce(std::vector<std::size_t>(50, 30'000)));
  BOOST_TEST(members.bytes() == 4 * 2 * 2 * 40'000);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
