#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "tensor/error.h"
#include "tests/support/expect_error.h"
#include "tests/support/seed.h"
#include "tests/transport/ucx/ucx_nodes.h"

namespace {

using namespace troupe;
using tensor::DType;
using tensor::ProcessGroup;
using tensor::Tensor;
using tensor::Work;
namespace data = boost::unit_test::data;

constexpr std::uint64_t kRun = 77;

/// One group over nodes of this process, with one thread per member.
class Members {
 public:
  explicit Members(int size) : nodes(size) {
    std::vector<int> ranks(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) ranks[static_cast<std::size_t>(rank)] = rank;
    for (int rank = 0; rank < size; ++rank)
      groups.push_back(nodes.node(rank).make_group(kRun, 1, 5, "replicas", ranks, rank));
  }

  /// Runs `body` as every member, and throws the exception of any of them.
  void run(const std::function<void(int member, ProcessGroup& group)>& body) {
    std::vector<std::exception_ptr> errors(groups.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          body(static_cast<int>(i), *groups[i]);
        } catch (...) {
          errors[i] = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors)
      if (error) std::rethrow_exception(error);
  }

  test::UcxNodes nodes;
  std::vector<std::unique_ptr<ProcessGroup>> groups;
};

template <typename T>
Tensor view(std::vector<T>& values) {
  const DType dtype = sizeof(T) == 8 ? DType::f64 : DType::f32;
  return {values.data(), dtype, tensor::Shape{static_cast<std::int64_t>(values.size())}};
}

/// Values of very different sizes: any other order of summation gives other bits.
template <typename T>
std::vector<T> values_of(std::uint64_t seed, int member, std::size_t count) {
  std::uint64_t state = seed * 1000 + static_cast<std::uint64_t>(member) + 1;
  std::vector<T> values(count);
  for (T& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const int exponent = static_cast<int>((state >> 40) % 20);
    value = static_cast<T>(static_cast<std::int32_t>(state >> 32) >> exponent) / 1024;
  }
  return values;
}

template <typename T>
std::vector<T> sum_in_order(std::uint64_t seed, int members, std::size_t count) {
  std::vector<T> sum = values_of<T>(seed, 0, count);
  for (int member = 1; member < members; ++member) {
    const std::vector<T> values = values_of<T>(seed, member, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += values[i];
  }
  return sum;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

const auto kMembers = data::make({1, 2, 3, 4});
// No element, fewer than members, around the change of the algorithm, and several uneven pieces.
const auto kSizes = data::make(std::vector<std::size_t>{0, 1, 7, 1000, 16384, 16385, 300'007});

template <typename T>
void check_all_reduce(int size, std::size_t count) {
  const std::uint64_t seed = test::fresh_seed();
  Members members(size);
  const std::vector<T> expected = sum_in_order<T>(seed, size, count);
  std::vector<int> equal(static_cast<std::size_t>(size));
  members.run([&](int member, ProcessGroup& group) {
    std::vector<T> x = values_of<T>(seed, member, count);
    group.all_reduce(view(x))->wait();
    equal[static_cast<std::size_t>(member)] = same_bits(x, expected);
  });
  for (const int ok : equal) BOOST_TEST(ok);
}

BOOST_DATA_TEST_CASE(all_reduce_adds_in_member_order, kMembers* kSizes, size, count) {
  check_all_reduce<float>(size, count);
}

BOOST_DATA_TEST_CASE(all_reduce_of_float64, kSizes, count) {
  check_all_reduce<double>(3, count);
}

BOOST_AUTO_TEST_CASE(all_reduce_in_many_rounds) {
  check_all_reduce<float>(2, 2'345'678);
}

BOOST_DATA_TEST_CASE(reduce_scatter_gives_each_its_block, kMembers* kSizes, size, count) {
  const std::uint64_t seed = test::fresh_seed();
  Members members(size);
  const std::size_t total = count * static_cast<std::size_t>(size);
  const std::vector<float> sum = sum_in_order<float>(seed, size, total);
  std::vector<int> equal(static_cast<std::size_t>(size));
  members.run([&](int member, ProcessGroup& group) {
    std::vector<float> in = values_of<float>(seed, member, total);
    const std::vector<float> before = in;
    std::vector<float> out(count);
    group.reduce_scatter(view(in), view(out))->wait();
    const auto begin = sum.begin() + static_cast<std::ptrdiff_t>(count) * member;
    equal[static_cast<std::size_t>(member)] =
        same_bits(out, std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(count))) &&
        same_bits(in, before);
  });
  for (const int ok : equal) BOOST_TEST(ok);
}

BOOST_DATA_TEST_CASE(all_gather_puts_blocks_in_order, kMembers* kSizes, size, count) {
  const std::uint64_t seed = test::fresh_seed();
  Members members(size);
  std::vector<float> expected;
  for (int member = 0; member < size; ++member) {
    const auto values = values_of<float>(seed, member, count);
    expected.insert(expected.end(), values.begin(), values.end());
  }
  std::vector<int> equal(static_cast<std::size_t>(size));
  members.run([&](int member, ProcessGroup& group) {
    std::vector<float> in = values_of<float>(seed, member, count);
    std::vector<float> out(count * static_cast<std::size_t>(size));
    group.all_gather(view(in), view(out))->wait();
    equal[static_cast<std::size_t>(member)] = same_bits(out, expected);
  });
  for (const int ok : equal) BOOST_TEST(ok);
}

BOOST_DATA_TEST_CASE(all_to_all_transposes_blocks, kMembers* kSizes, size, count) {
  const std::uint64_t seed = test::fresh_seed();
  Members members(size);
  const std::size_t total = count * static_cast<std::size_t>(size);
  std::vector<int> equal(static_cast<std::size_t>(size));
  members.run([&](int member, ProcessGroup& group) {
    std::vector<float> in = values_of<float>(seed, member, total);
    std::vector<float> out(total);
    group.all_to_all(view(in), view(out))->wait();
    std::vector<float> expected;
    for (int other = 0; other < size; ++other) {
      const auto theirs = values_of<float>(seed, other, total);
      const auto begin = theirs.begin() + static_cast<std::ptrdiff_t>(count) * member;
      expected.insert(expected.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
    }
    equal[static_cast<std::size_t>(member)] = same_bits(out, expected);
  });
  for (const int ok : equal) BOOST_TEST(ok);
}

BOOST_DATA_TEST_CASE(broadcast_spreads_the_roots_values, kMembers* kSizes, size, count) {
  const std::uint64_t seed = test::fresh_seed();
  Members members(size);
  const int root = size - 1;
  const std::vector<float> expected = values_of<float>(seed, root, count);
  std::vector<int> equal(static_cast<std::size_t>(size));
  members.run([&](int member, ProcessGroup& group) {
    std::vector<float> x = values_of<float>(seed, member, count);
    group.broadcast(view(x), root)->wait();
    equal[static_cast<std::size_t>(member)] = same_bits(x, expected);
  });
  for (const int ok : equal) BOOST_TEST(ok);
}

BOOST_AUTO_TEST_CASE(works_may_be_waited_for_in_any_order) {
  const std::uint64_t seed = test::fresh_seed();
  constexpr std::size_t kCount = 300'000;
  constexpr int kWorks = 6;
  Members members(3);
  std::vector<int> equal(3);
  members.run([&](int member, ProcessGroup& group) {
    std::vector<std::vector<float>> xs;
    for (std::uint64_t i = 0; i < kWorks; ++i)
      xs.push_back(values_of<float>(seed + i, member, kCount));
    std::vector<std::unique_ptr<Work>> works;
    for (auto& x : xs) works.push_back(group.all_reduce(view(x)));
    // Members wait in opposite orders, which would deadlock if each waited only for its own
    // collective.
    for (int i = 0; i < kWorks; ++i)
      works[static_cast<std::size_t>(member == 1 ? kWorks - 1 - i : i)]->wait();
    bool ok = true;
    for (std::uint64_t i = 0; i < kWorks; ++i)
      ok = ok && same_bits(xs[i], sum_in_order<float>(seed + i, 3, kCount));
    equal[static_cast<std::size_t>(member)] = ok;
  });
  for (const int ok : equal) BOOST_TEST(ok);
}

BOOST_AUTO_TEST_CASE(done_makes_progress_without_wait) {
  Members members(2);
  members.run([](int, ProcessGroup& group) {
    std::vector<float> x(400'000, 1.5f);
    const auto work = group.all_reduce(view(x));
    while (!work->done()) std::this_thread::yield();
    work->wait();
    if (x.front() != 3.0f || x.back() != 3.0f) throw Error(ErrorKind::internal, "wrong sum");
  });
}

BOOST_AUTO_TEST_CASE(a_member_may_make_its_group_late) {
  test::UcxNodes nodes(2);
  const auto first = nodes.node(0).make_group(kRun, 1, 1, "late", {0, 1}, 0);
  std::vector<float> a(50'000, 1), b(50'000, 2);
  const auto work = first->all_reduce(view(a));
  BOOST_TEST(!work->done());
  const auto second = nodes.node(1).make_group(kRun, 1, 1, "late", {0, 1}, 1);
  const auto other = second->all_reduce(view(b));
  std::thread waiter([&work] { work->wait(); });
  other->wait();
  waiter.join();
  BOOST_TEST(a == std::vector<float>(50'000, 3), boost::test_tools::per_element());
  BOOST_TEST(b == a, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(abort_ends_waiting_members_with_its_reason) {
  Members members(3);
  std::vector<std::string> errors(3);
  std::thread aborter;
  members.run([&](int member, ProcessGroup& group) {
    if (member == 2) {  // never calls, like a member that has died
      for (auto& other : members.groups) other->abort("rank 2 was killed by signal 9");
      return;
    }
    std::vector<float> x(500'000, 1);
    try {
      group.all_reduce(view(x))->wait();
    } catch (const Error& error) {
      errors[static_cast<std::size_t>(member)] = error.what();
    }
  });
  for (int member = 0; member < 2; ++member) {
    BOOST_TEST(errors[static_cast<std::size_t>(member)].find("rank 2 was killed by signal 9") !=
               std::string::npos);
  }
  test::expect_error(ErrorKind::unavailable, {"replicas", "rank 2 was killed by signal 9"}, [&] {
    std::vector<float> x(5, 1);
    members.groups[0]->all_reduce(view(x))->wait();
  });
}

BOOST_AUTO_TEST_CASE(a_late_member_is_named) {
  test::UcxNodes nodes(3);
  nodes.channel(0).set_deadline(std::chrono::milliseconds(30));
  std::vector<std::unique_ptr<ProcessGroup>> groups;
  for (int rank = 0; rank < 3; ++rank)
    groups.push_back(nodes.node(rank).make_group(kRun, 1, 1, "gradients", {0, 1, 2}, rank));
  std::vector<float> a(10, 1), b(10, 1);
  const auto theirs = groups[1]->all_reduce(view(b));
  test::expect_error(ErrorKind::unavailable,
                     {"waited 0.03 s for all-reduce 0 of group \"gradients\"", "2"},
                     [&] { groups[0]->all_reduce(view(a))->wait(); });
  groups[1]->abort("over");
  groups[2]->abort("over");
}

BOOST_AUTO_TEST_CASE(members_that_call_different_collectives_are_told) {
  Members members(2);
  std::vector<std::string> errors(2);
  members.run([&](int member, ProcessGroup& group) {
    std::vector<float> x(100, 1);
    try {
      (member == 0 ? group.all_reduce(view(x)) : group.broadcast(view(x), 1))->wait();
    } catch (const Error& error) {
      errors[static_cast<std::size_t>(member)] = error.what();
      for (auto& other : members.groups) other->abort("the other disagreed");
    }
  });
  const std::string both = errors[0] + errors[1];
  const bool is_named =
      both.find("number 0 is all-reduce at rank 0 and broadcast at rank 1") != both.npos ||
      both.find("number 0 is broadcast at rank 1 and all-reduce at rank 0") != both.npos;
  BOOST_TEST(is_named, both);
}

BOOST_AUTO_TEST_CASE(members_with_different_sizes_are_told) {
  Members members(2);
  std::vector<std::string> errors(2);
  members.run([&](int member, ProcessGroup& group) {
    std::vector<float> x(member == 0 ? 100 : 101, 1);
    try {
      group.all_reduce(view(x))->wait();
    } catch (const Error& error) {
      errors[static_cast<std::size_t>(member)] = error.what();
      for (auto& other : members.groups) other->abort("the other disagreed");
    }
  });
  const std::string both = errors[0] + errors[1];
  const bool is_named = both.find("has 400 bytes at rank 0 and 404 at rank 1") != both.npos ||
                        both.find("has 404 bytes at rank 1 and 400 at rank 0") != both.npos;
  BOOST_TEST(is_named, both);
}

BOOST_AUTO_TEST_CASE(a_dropped_work_ends_the_group) {
  test::UcxNodes nodes(2);
  const auto first = nodes.node(0).make_group(kRun, 1, 1, "pair", {0, 1}, 0);
  const auto second = nodes.node(1).make_group(kRun, 1, 1, "pair", {0, 1}, 1);
  std::vector<float> x(10'000, 1);
  std::thread dropper([&] { first->all_reduce(view(x)); });
  dropper.join();
  test::expect_error(ErrorKind::unavailable, {"all-reduce 0", "was dropped"},
                     [&] { first->all_reduce(view(x))->wait(); });
}

BOOST_AUTO_TEST_CASE(disconnecting_a_member_ends_the_group) {
  test::UcxNodes nodes(2);
  const auto group = nodes.node(0).make_group(kRun, 1, 1, "pair", {0, 1}, 0);
  nodes.kill(1);
  std::vector<float> x(1'000'000, 1);
  const auto work = group->all_reduce(view(x));
  std::thread supervisor([&] { nodes.node(0).disconnect(1); });
  test::expect_error(ErrorKind::unavailable, {"pair", "rank 1"}, [&] { work->wait(); });
  supervisor.join();
}

BOOST_AUTO_TEST_CASE(a_new_epoch_works_after_an_abort) {
  test::UcxNodes nodes(2);
  for (std::uint32_t epoch = 1; epoch <= 3; ++epoch) {
    const auto first = nodes.node(0).make_group(kRun, epoch, 1, "pair", {0, 1}, 0);
    const auto second = nodes.node(1).make_group(kRun, epoch, 1, "pair", {0, 1}, 1);
    std::vector<float> a(200'000, 1), b(200'000, 2);
    const auto work = first->all_reduce(view(a));
    if (epoch == 1) {
      first->abort("a recovery");
      second->abort("a recovery");
      test::expect_error(ErrorKind::unavailable, {"a recovery"}, [&] { work->wait(); });
      continue;
    }
    const auto other = second->all_reduce(view(b));
    std::thread waiter([&] { work->wait(); });
    other->wait();
    waiter.join();
    BOOST_TEST((a == b && a[7] == 3.0f));
  }
}

}  // namespace
