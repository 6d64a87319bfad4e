#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "tensor/errors/error.h"
#include "tests/support/expect_error.h"
#include "tests/support/seed.h"
#include "tests/transport/ucx/group_members.h"

// How collectives progress, and how a group ends.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(ucx_group_test)

namespace {

using tensor::ProcessGroup;
using tensor::Reduction;
using tensor::Work;

BOOST_AUTO_TEST_CASE(a_member_may_make_its_group_late) {
  UcxNodes nodes(2);
  const MemberStream stream, other_stream;
  const auto first = nodes.node(0).make_group(kGroupRun, 1, 1, "late", {0, 1}, 0);
  std::vector<float> a(50'000, 1), b(50'000, 2);
  const auto work = first->all_reduce(stream, view(a));
  BOOST_TEST(!work->done());
  const auto second = nodes.node(1).make_group(kGroupRun, 1, 1, "late", {0, 1}, 1);
  const auto other = second->all_reduce(other_stream, view(b));
  std::thread waiter([&work] { work->wait(); });
  other->wait();
  waiter.join();
  BOOST_TEST((a == std::vector<float>(50'000, 3)));
  BOOST_TEST((b == a));
}

BOOST_AUTO_TEST_CASE(a_group_says_why_it_ended) {
  UcxNodes nodes(2);
  const auto group = nodes.node(0).make_group(kGroupRun, 1, 1, "pair", {0, 1}, 0);
  BOOST_TEST(group->fault().empty());
  group->abort("rank 1 has died");
  group->abort("a later reason");
  BOOST_TEST(group->fault() == "group \"pair\" was aborted: rank 1 has died");
}

/// Every operation of a group, each with a few pieces.
struct Operations {
  std::vector<float> in = std::vector<float>(200'000), out = in, wide = std::vector<float>(400'000);

  std::vector<std::function<std::unique_ptr<Work>(const GroupMember&)>> all() {
    return {[this](auto& m) { return m.group.all_reduce(m.stream, view(in)); },
            [this](auto& m) { return m.group.all_gather(m.stream, view(in), view(wide)); },
            [this](auto& m) { return m.group.reduce_scatter(m.stream, view(wide), view(out)); },
            [this](auto& m) { return m.group.all_to_all(m.stream, view(in), view(out)); },
            [this](auto& m) { return m.group.broadcast(m.stream, view(in), 1); },
            [this](auto& m) { return m.group.barrier(m.stream); }};
  }
};

BOOST_AUTO_TEST_CASE(a_late_member_is_named_in_every_operation) {
  const std::vector<std::string> names{"all-reduce", "all-gather", "reduce-scatter",
                                       "all-to-all", "broadcast",  "barrier"};
  Operations operations;
  for (std::size_t i = 0; i < names.size(); ++i) {
    GroupMembers members(2);
    members.nodes.channel(0).set_deadline(std::chrono::milliseconds(30));
    expect_error(ErrorKind::unavailable,
                 {"waited 0.03 s for " + names[i] + " 0 of group \"replicas\", missing rank 1"},
                 [&] { operations.all()[i](members.member(0))->wait(); });
    BOOST_TEST(members.groups[0]->fault().find("missing rank 1") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(only_the_late_of_three_members_is_named) {
  GroupMembers members(3);
  members.nodes.channel(0).set_deadline(std::chrono::milliseconds(200));
  std::vector<float> a(10, 1), b(10, 1);
  const auto theirs = members.groups[1]->all_reduce(members.member(1).stream, view(b));
  expect_error(ErrorKind::unavailable, {"all-reduce 0 of group \"replicas\"", "missing rank 2"},
               [&] { members.groups[0]->all_reduce(members.member(0).stream, view(a))->wait(); });
  members.groups[1]->abort("over");
}

/// What either of two members was told when each made its call.
std::string disagreement(const std::function<std::unique_ptr<Work>(const GroupMember&)>& call) {
  GroupMembers members(2);
  std::vector<std::string> errors(2);
  members.run([&](const GroupMember& self) {
    try {
      call(self)->wait();
    } catch (const Error& error) {
      errors[static_cast<std::size_t>(self.number)] = error.what();
      for (auto& other : members.groups) other->abort("the other disagreed");
    }
  });
  return errors[0] + errors[1];
}

void expect_either(const std::string& text, const std::string& one, const std::string& other) {
  const bool is_named = text.find(one) != text.npos || text.find(other) != text.npos;
  BOOST_TEST(is_named, text);
}

BOOST_AUTO_TEST_CASE(members_that_call_different_collectives_are_told) {
  std::vector<float> a(100, 1), b(100, 1);
  const std::string told = disagreement([&](const GroupMember& self) {
    return self.number == 0 ? self.group.all_reduce(self.stream, view(a))
                            : self.group.broadcast(self.stream, view(b), 1);
  });
  expect_either(told, "number 0 is all-reduce at rank 0 and broadcast at rank 1",
                "number 0 is broadcast at rank 1 and all-reduce at rank 0");
}

BOOST_AUTO_TEST_CASE(members_with_different_sizes_are_told) {
  std::vector<float> a(100, 1), b(101, 1);
  const std::string told = disagreement([&](const GroupMember& self) {
    return self.group.all_reduce(self.stream, view(self.number == 0 ? a : b));
  });
  expect_either(told, "has 400 bytes at rank 0 and 404 at rank 1",
                "has 404 bytes at rank 1 and 400 at rank 0");
}

BOOST_AUTO_TEST_CASE(members_with_different_types_or_reductions_are_told) {
  std::vector<float> a(100, 1), b(100, 1);
  std::vector<std::int32_t> c(100, 1);
  const std::string reductions = disagreement([&](const GroupMember& self) {
    const bool is_first = self.number == 0;
    return self.group.all_reduce(self.stream, view(is_first ? a : b),
                                 is_first ? Reduction::sum : Reduction::max);
  });
  expect_either(reductions, "sum of float32 at rank 0 and maximum of float32 at rank 1",
                "maximum of float32 at rank 1 and sum of float32 at rank 0");
  const std::string types = disagreement([&](const GroupMember& self) {
    return self.group.broadcast(self.stream, self.number == 0 ? view(a) : view(c), 1);
  });
  expect_either(types, "of float32 at rank 0 and of int32 at rank 1",
                "of int32 at rank 1 and of float32 at rank 0");
}

BOOST_AUTO_TEST_CASE(a_dropped_work_ends_the_group) {
  GroupMembers members(2);
  const GroupMember self = members.member(0);
  std::vector<float> x(10'000, 1);
  self.group.all_reduce(self.stream, view(x)).reset();
  expect_error(ErrorKind::unavailable, {"all-reduce 0", "was dropped"},
               [&] { self.group.all_reduce(self.stream, view(x))->wait(); });
}

BOOST_AUTO_TEST_CASE(disconnecting_a_member_ends_the_group) {
  UcxNodes nodes(2);
  const MemberStream stream;
  const auto group = nodes.node(0).make_group(kGroupRun, 1, 1, "pair", {0, 1}, 0);
  nodes.kill(1);
  std::vector<float> x(1'000'000, 1);
  const auto work = group->all_reduce(stream, view(x));
  std::thread supervisor([&] { nodes.node(0).disconnect(1); });
  expect_error(ErrorKind::unavailable, {"pair", "rank 1"}, [&] { work->wait(); });
  supervisor.join();
}

BOOST_AUTO_TEST_CASE(a_gather_that_is_aborted_leaves_the_members_tensors) {
  constexpr std::size_t kCount = 300'000;
  GroupMembers members(2);
  BOOST_TEST(members.all([&](const GroupMember& self) {
    std::vector<float> whole(2 * kCount, 1);
    const auto begin = static_cast<std::size_t>(self.number) * kCount;
    const auto gather = [&] {
      return self.group.all_gather(self.stream, view(whole, begin, kCount), view(whole));
    };
    gather()->wait();
    if (self.number == 1) return true;  // and does not come again
    std::ranges::fill(whole, 2);
    auto work = gather();
    self.group.abort("the other member is lost");
    work.reset();
    return std::ranges::count(whole, 2) == std::ssize(whole);
  }));
}

BOOST_AUTO_TEST_CASE(a_new_configuration_works_after_an_abort) {
  UcxNodes nodes(2);
  const MemberStream stream, other_stream;
  for (std::uint32_t configuration = 1; configuration <= 3; ++configuration) {
    const auto first = nodes.node(0).make_group(kGroupRun, configuration, 1, "pair", {0, 1}, 0);
    const auto second = nodes.node(1).make_group(kGroupRun, configuration, 1, "pair", {0, 1}, 1);
    std::vector<float> a(200'000, 1), b(200'000, 2);
    const auto work = first->all_reduce(stream, view(a));
    if (configuration == 1) {
      first->abort("a recovery");
      second->abort("a recovery");
      expect_error(ErrorKind::unavailable, {"a recovery"}, [&] { work->wait(); });
      continue;
    }
    const auto other = second->all_reduce(other_stream, view(b));
    std::thread waiter([&] { work->wait(); });
    other->wait();
    waiter.join();
    BOOST_TEST((a == b && a[7] == 3.0f));
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
