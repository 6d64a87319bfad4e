#pragma once

#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <random>

#include "tests/contract/group_members.h"
#include "tests/support/seed.h"

// Tests of collectives that move elements and compute nothing. The members of their groups are of
// the types of `GroupWorlds`, as group_contract.h says.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(group_exchanges_contract)

namespace {

using Counts = std::vector<std::int64_t>;

// No element, fewer than members, and several uneven pieces.
constexpr std::array kSizes{0, 1, 7, 1000, 16385, 300'007};

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

BOOST_AUTO_TEST_CASE_TEMPLATE(all_gather_puts_blocks_in_order, Members, GroupWorlds) {
  for_each_size(kSizes, [&](int size, std::size_t count) {
    const std::uint64_t seed = fresh_seed();
    Members members(size);
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
  });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(uneven_all_gather_in_place, Members, GroupWorlds) {
  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  for (int size = 1; size <= 4; ++size) {
    Members members(size);
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

BOOST_AUTO_TEST_CASE_TEMPLATE(all_to_all_transposes_blocks, Members, GroupWorlds) {
  for_each_size(kSizes, [&](int size, std::size_t count) {
    const std::uint64_t seed = fresh_seed();
    Members members(size);
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
  });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(uneven_all_to_all_sends_each_pair_its_count, Members, GroupWorlds) {
  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  for (int size = 1; size <= 4; ++size) {
    Members members(size);
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

BOOST_AUTO_TEST_CASE_TEMPLATE(broadcast_spreads_the_roots_values, Members, GroupWorlds) {
  for_each_size(kSizes, [&](int size, std::size_t count) {
    const std::uint64_t seed = fresh_seed();
    Members members(size);
    const int root = size - 1;
    const std::vector<float> expected = values_of<float>(seed, root, count);
    BOOST_TEST(members.all([&](const GroupMember& self) {
      std::vector<float> x = values_of<float>(seed, self.number, count);
      self.group.broadcast(self.stream, view(x), root)->wait();
      return same_bits(x, expected);
    }));
  });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_barrier_waits_for_all_members, Members, GroupWorlds) {
  for (int size = 1; size <= 4; ++size) {
    Members members(size);
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
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
