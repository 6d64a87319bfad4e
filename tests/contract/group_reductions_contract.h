#pragma once

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <random>

#include "tests/contract/group_members.h"
#include "tests/support/seed.h"

// Tests of what every group of hosts computes: the same bits, whatever the group. Its members are
// of the types of `GroupWorlds`, as group_contract.h says.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(group_reductions_contract)

namespace {

using tensor::BFloat16;
using tensor::Reduction;
using tensor::Tensor;

// No element, fewer than members, around the change of the algorithm, and several uneven pieces.
constexpr std::array kSizes{0, 1, 7, 1000, 8192, 8193, 300'007};
constexpr std::array kReductions{Reduction::sum, Reduction::max, Reduction::average};

double number(double x) {
  return x;
}
double number(BFloat16 x) {
  return tensor::to_float(x);
}

/// What a reduction computes with: bfloat16 in float32, every other type in itself.
template <typename T>
struct Sum {
  using Type = T;
};
template <>
struct Sum<BFloat16> {
  using Type = float;
};

/// The members' values, reduced one member after the other.
template <typename T>
std::vector<T> reduce_in_order(std::uint64_t seed, int members, std::size_t count,
                               Reduction reduction) {
  using Wide = typename Sum<T>::Type;
  std::vector<Wide> result(count);
  for (int member = 0; member < members; ++member) {
    const std::vector<T> values = values_of<T>(seed, member, count);
    for (std::size_t i = 0; i < count; ++i) {
      const Wide x = static_cast<Wide>(number(values[i]));
      if (member == 0)
        result[i] = x;
      else if (reduction == Reduction::max)
        result[i] = std::max(result[i], x);
      else
        result[i] += x;
    }
  }
  std::vector<T> rounded(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Wide x =
        reduction == Reduction::average ? result[i] / static_cast<Wide>(members) : result[i];
    rounded[i] = element_of<T>(static_cast<double>(x));
  }
  return rounded;
}

template <typename Members, typename T>
void check_all_reduce(int size, std::size_t count, Reduction reduction) {
  const std::uint64_t seed = fresh_seed();
  Members members(size);
  const std::vector<T> expected = reduce_in_order<T>(seed, size, count, reduction);
  BOOST_TEST(members.all([&](const GroupMember& self) {
    std::vector<T> x = values_of<T>(seed, self.number, count);
    self.group.all_reduce(self.stream, view(x), reduction)->wait();
    return same_bits(x, expected);
  }));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(all_reduce_adds_in_member_order, Members, GroupWorlds) {
  for_each_size(kSizes, [&](int size, std::size_t count) {
    check_all_reduce<Members, float>(size, count, Reduction::sum);
  });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(every_type_and_reduction, Members, GroupWorlds) {
  const auto check = [](auto element) {
    for (const Reduction reduction : kReductions)
      for (const std::size_t count : {1u, 1000u, 100'003u})
        check_all_reduce<Members, decltype(element)>(3, count, reduction);
  };
  check(float());
  check(double());
  check(BFloat16());
  check(std::int32_t());
  check(std::int64_t());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(all_reduce_in_many_rounds, Members, GroupWorlds) {
  check_all_reduce<Members, float>(2, 2'345'678, Reduction::sum);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(many_tensors_are_reduced_as_each_alone, Members, GroupWorlds) {
  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  std::vector<std::size_t> sizes{0, 1, 250'000, 3};
  for (int i = 0; i < 40; ++i) sizes.push_back(random() % 3000);
  Members members(3);
  BOOST_TEST(members.all([&](const GroupMember& self) {
    std::vector<std::vector<BFloat16>> values;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      values.push_back(values_of<BFloat16>(seed + i, self.number, sizes[i]));
    std::vector<Tensor> tensors;
    for (auto& x : values) tensors.push_back(view(x));
    self.group.all_reduce_many(self.stream, tensors, Reduction::average)->wait();
    bool ok = true;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      ok = ok && same_bits(values[i],
                           reduce_in_order<BFloat16>(seed + i, 3, sizes[i], Reduction::average));
    return ok;
  }));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(reduce_scatter_gives_each_its_block, Members, GroupWorlds) {
  for_each_size(kSizes, [&](int size, std::size_t count) {
    const std::uint64_t seed = fresh_seed();
    Members members(size);
    const std::size_t total = count * static_cast<std::size_t>(size);
    const auto sum = reduce_in_order<float>(seed, size, total, Reduction::sum);
    BOOST_TEST(members.all([&](const GroupMember& self) {
      std::vector<float> in = values_of<float>(seed, self.number, total);
      const std::vector<float> before = in;
      std::vector<float> out(count);
      self.group.reduce_scatter(self.stream, view(in), view(out))->wait();
      const std::size_t begin = count * static_cast<std::size_t>(self.number);
      return same_bits(out, slice_of(sum, begin, count)) && same_bits(in, before);
    }));
  });
}

/// The members' values of bfloat16, added in float32 one member after the other.
std::vector<float> add_in_float32(std::uint64_t seed, int members, std::size_t count) {
  std::vector<float> sum(count);
  for (int member = 0; member < members; ++member) {
    const auto values = values_of<BFloat16>(seed, member, count);
    for (std::size_t i = 0; i < count; ++i) {
      const float x = tensor::to_float(values[i]);
      sum[i] = member == 0 ? x : sum[i] + x;
    }
  }
  return sum;
}

BOOST_AUTO_TEST_CASE_TEMPLATE(reduce_scatter_of_bfloat16_into_float32_rounds_nothing, Members,
                              GroupWorlds) {
  for_each_size(kSizes, [&](int size, std::size_t count) {
    const std::uint64_t seed = fresh_seed();
    Members members(size);
    // Every member has another number of elements, the last one none.
    std::vector<std::int64_t> counts;
    std::vector<std::size_t> begins;
    std::size_t total = 0;
    for (int i = size - 1; i >= 0; --i) {
      begins.push_back(total);
      counts.push_back(static_cast<std::int64_t>(count) * i);
      total += count * static_cast<std::size_t>(i);
    }
    const std::vector<float> sum = add_in_float32(seed, size, total);
    BOOST_TEST(members.all([&](const GroupMember& self) {
      const auto i = static_cast<std::size_t>(self.number);
      std::vector<BFloat16> in = values_of<BFloat16>(seed, self.number, total);
      const std::vector<BFloat16> before = in;
      std::vector<float> out(static_cast<std::size_t>(counts[i]));
      self.group.reduce_scatter(self.stream, view(in), view(out), Reduction::sum, counts)->wait();
      return same_bits(out, slice_of(sum, begins[i], out.size())) && same_bits(in, before);
    }));
  });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(uneven_reduce_scatter_in_place, Members, GroupWorlds) {
  const std::uint64_t seed = fresh_seed();
  const std::vector<std::int64_t> counts{70'001, 0, 5, 200'000};
  const std::vector<std::size_t> begins{0, 70'001, 70'001, 70'006};
  constexpr std::size_t kTotal = 270'006;
  Members members(4);
  for (const Reduction reduction : kReductions) {
    const auto expected = reduce_in_order<double>(seed, 4, kTotal, reduction);
    BOOST_TEST(members.all([&](const GroupMember& self) {
      const auto i = static_cast<std::size_t>(self.number);
      const auto size = static_cast<std::size_t>(counts[i]);
      std::vector<double> x = values_of<double>(seed, self.number, kTotal);
      const Tensor own = view(x, begins[i], size);
      self.group.reduce_scatter(self.stream, view(x), own, reduction, counts)->wait();
      return same_bits(slice_of(x, begins[i], size), slice_of(expected, begins[i], size));
    }));
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
