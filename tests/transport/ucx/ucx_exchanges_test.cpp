#include <atomic>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <random>

#include "tests/support/seed.h"
#include "tests/transport/ucx/group_members.h"

// Collectives that move elements and compute nothing.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(ucx_exchanges_test)

namespace {

using Counts = std::vector<std::int64_t>;
namespace data = boost::unit_test::data;

const auto kMembers = data::make({1, 2, 3, 4});
// No element, fewer than members, and several uneven pieces.
const auto kSizes = data::make(std::vector<std::size_t>{0, 1, 7, 1000, 16385, 300'007});

std::size_t size_at(const Counts& counts, int member) {
  return static_cast<std::size_t>(counts[static_cast<std::size_t>(member)]);
}
/// Elements of the members before this one.
std::size_t begin_of(const Counts& counts, int member) {
  std::size_t begin = 0;
  for (int other = 0; other < member; ++other) begin += size_at(counts, other);
  return begin;
}

Counts random_counts(std::mt19937_64& random, int members) {
  Counts counts;
  for (int i = 0; i < members; ++i)
    counts.push_back(static_cast<std::int64_t>(random() % 4 == 0 ? 0 : random() % 200'000));
  return counts;
}

BOOST_DATA_TEST_CASE(all_gather_puts_blocks_in_order, kMembers* kSizes, size, count) {
  const std::uint64_t seed = fresh_seed();
  GroupMembers members(size);
  std::vector<float> expected;
  for (int member = 0; member < size; ++member) {
    const auto values = values_of<float>(seed, member, count);
    expected.insert(expected.end(), values.begin(), values.end());
  }
  BOOST_TEST(members.all([&](const GroupMember& self) {
    std::vector<float> in = values_of<float>(seed, self.number, count);
    std::vector<float> out(count * static_cast<std::size_t>(size));
    self.group.all_gather(self.stream, view(in), view(out))->wait();
    return same_bits(out, expected);
  }));
}

BOOST_AUTO_TEST_CASE(uneven_all_gather_in_place) {
  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  for (int size = 1; size <= 4; ++size) {
    GroupMembers members(size);
    const Counts counts = random_counts(random, size);
    std::vector<std::int64_t> expected;
    for (int member = 0; member < size; ++member) {
      const auto values = values_of<std::int64_t>(seed, member, size_at(counts, member));
      expected.insert(expected.end(), values.begin(), values.end());
    }
    BOOST_TEST(members.all([&](const GroupMember& self) {
      const std::size_t begin = begin_of(counts, self.number);
      const std::size_t own = size_at(counts, self.number);
      std::vector<std::int64_t> x(expected.size());
      const auto values = values_of<std::int64_t>(seed, self.number, own);
      std::copy(values.begin(), values.end(), x.begin() + static_cast<std::ptrdiff_t>(begin));
      self.group.all_gather(self.stream, view(x, begin, own), view(x), counts)->wait();
      return same_bits(x, expected);
    }));
  }
}

BOOST_DATA_TEST_CASE(all_to_all_transposes_blocks, kMembers* kSizes, size, count) {
  const std::uint64_t seed = fresh_seed();
  GroupMembers members(size);
  const std::size_t total = count * static_cast<std::size_t>(size);
  BOOST_TEST(members.all([&](const GroupMember& self) {
    std::vector<tensor::BFloat16> in = values_of<tensor::BFloat16>(seed, self.number, total);
    std::vector<tensor::BFloat16> out(total);
    self.group.all_to_all(self.stream, view(in), view(out))->wait();
    std::vector<tensor::BFloat16> expected;
    for (int other = 0; other < size; ++other) {
      const auto theirs = values_of<tensor::BFloat16>(seed, other, total);
      const auto mine = slice_of(theirs, count * static_cast<std::size_t>(self.number), count);
      expected.insert(expected.end(), mine.begin(), mine.end());
    }
    return same_bits(out, expected);
  }));
}

BOOST_AUTO_TEST_CASE(uneven_all_to_all_sends_each_pair_its_count) {
  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  for (int size = 1; size <= 4; ++size) {
    GroupMembers members(size);
    std::vector<Counts> sends;  // by sender
    for (int member = 0; member < size; ++member) sends.push_back(random_counts(random, size));
    const auto sends_of = [&](int member) -> const Counts& {
      return sends[static_cast<std::size_t>(member)];
    };
    const auto in_of = [&](int member) {
      return values_of<std::int32_t>(seed, member, begin_of(sends_of(member), size));
    };
    BOOST_TEST(members.all([&](const GroupMember& self) {
      std::vector<std::int32_t> in = in_of(self.number), expected;
      Counts receives;
      for (int other = 0; other < size; ++other) {
        const std::size_t count = size_at(sends_of(other), self.number);
        receives.push_back(static_cast<std::int64_t>(count));
        const auto block = slice_of(in_of(other), begin_of(sends_of(other), self.number), count);
        expected.insert(expected.end(), block.begin(), block.end());
      }
      std::vector<std::int32_t> out(expected.size());
      self.group.all_to_all(self.stream, view(in), view(out), sends_of(self.number), receives)
          ->wait();
      return same_bits(out, expected);
    }));
  }
}

BOOST_DATA_TEST_CASE(broadcast_spreads_the_roots_values, kMembers* kSizes, size, count) {
  const std::uint64_t seed = fresh_seed();
  GroupMembers members(size);
  const int root = size - 1;
  const std::vector<float> expected = values_of<float>(seed, root, count);
  BOOST_TEST(members.all([&](const GroupMember& self) {
    std::vector<float> x = values_of<float>(seed, self.number, count);
    self.group.broadcast(self.stream, view(x), root)->wait();
    return same_bits(x, expected);
  }));
}

BOOST_DATA_TEST_CASE(a_barrier_waits_for_all_members, kMembers, size) {
  GroupMembers members(size);
  std::atomic<int> entered = 0;
  BOOST_TEST(members.all([&](const GroupMember& self) {
    bool ok = true;
    for (int round = 1; round <= 5; ++round) {
      ++entered;
      self.group.barrier(self.stream)->wait();
      ok = ok && entered >= round * size;
      self.group.barrier(self.stream)->wait();  // nobody enters the next round before all looked
    }
    return ok;
  }));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
