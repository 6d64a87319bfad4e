#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tensor/errors/error.h"
#include "tests/contract/group_exchanges_contract.h"
#include "tests/contract/group_members.h"
#include "tests/contract/group_reductions_contract.h"
#include "tests/support/expect_error.h"

// Tests of what every ProcessGroup of hosts promises. A test file defines `GroupWorlds`, a tuple of
// types, in namespace troupe::test before it includes this header. Each is a MemberThreads and has
//   explicit Members(int size)           a group of that many members

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(group_contract)

namespace {

using tensor::Work;

BOOST_AUTO_TEST_CASE_TEMPLATE(works_may_be_waited_for_in_any_order, Members, GroupWorlds) {
  constexpr std::size_t kCount = 300'000;
  constexpr int kWorks = 6;
  Members members(3);
  BOOST_TEST(members.all([&](const GroupMember& self) {
    std::vector<std::vector<float>> xs(kWorks, numbered(self, kCount));
    std::vector<std::unique_ptr<Work>> works;
    for (auto& x : xs) works.push_back(self.group.all_reduce(self.stream, view(x)));
    // Members wait in opposite orders, which would deadlock if each waited only for its own
    // collective.
    for (int i = 0; i < kWorks; ++i)
      works[static_cast<std::size_t>(self.number == 1 ? kWorks - 1 - i : i)]->wait();
    bool ok = true;
    for (auto& x : xs) ok = ok && x == std::vector<float>(kCount, sum_of_members(3));
    return ok;
  }));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_started_collective_finishes_without_a_wait, Members, GroupWorlds) {
  constexpr std::size_t kCount = 400'000;
  Members members(3);
  BOOST_TEST(members.all([&](const GroupMember& self) {
    std::vector<std::vector<float>> xs(5, numbered(self, kCount));
    std::vector<float> in(3 * kCount, 1), out(kCount), own(kCount, 1), gathered(3 * kCount);
    std::vector<float> sent(kCount, 1);
    std::vector<std::unique_ptr<Work>> works;
    for (auto& x : xs) works.push_back(self.group.all_reduce(self.stream, view(x)));
    works.push_back(self.group.reduce_scatter(self.stream, view(in), view(out)));
    works.push_back(self.group.all_gather(self.stream, view(own), view(gathered)));
    works.push_back(self.group.broadcast(self.stream, view(sent), 1));
    works.push_back(self.group.barrier(self.stream));
    // done() moves nothing. A thread that asks all the time must not keep the others from working.
    for (const auto& work : works)
      while (!work->done()) std::this_thread::yield();
    bool ok = out == std::vector<float>(kCount, 3);
    for (auto& x : xs) ok = ok && x == std::vector<float>(kCount, sum_of_members(3));
    return ok;
  }));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_stream_waits_for_a_collective, Members, GroupWorlds) {
  Members members(2);
  BOOST_TEST(members.all([&](const GroupMember& self) {
    std::vector<float> x = numbered(self, 100'000);
    const auto work = self.group.all_reduce(self.stream, view(x));
    work->wait(self.stream);
    self.stream.synchronize();
    return work->done() && x == std::vector<float>(100'000, sum_of_members(2));
  }));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_collective_tells_when_it_was_done, Members, GroupWorlds) {
  const auto now_s = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  Members members(2);
  BOOST_TEST(members.all([&](const GroupMember& self) {
    bool ok = true;
    for (const std::size_t count : {10u, 300'000u}) {
      std::vector<float> x = numbered(self, count);
      const double begin_s = now_s();
      const auto work = self.group.all_reduce(self.stream, view(x));
      work->wait();
      const double end_s = now_s();
      ok = ok && begin_s <= work->finished_s() && work->finished_s() <= end_s;
    }
    return ok;
  }));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(abort_ends_waiting_members_with_its_reason, Members, GroupWorlds) {
  Members members(3);
  std::vector<std::string> errors(3);
  members.run([&](const GroupMember& self) {
    if (self.number == 2) {  // never calls, like a member that has died
      for (auto& other : members.groups) other->abort("rank 2 was killed by signal 9");
      return;
    }
    std::vector<float> x(500'000, 1);
    try {
      self.group.all_reduce(self.stream, view(x))->wait();
    } catch (const Error& error) {
      errors[static_cast<std::size_t>(self.number)] = error.what();
    }
  });
  for (int member = 0; member < 2; ++member) {
    BOOST_TEST(errors[static_cast<std::size_t>(member)].find("rank 2 was killed by signal 9") !=
               std::string::npos);
  }
  const GroupMember self = members.member(0);
  BOOST_TEST(self.group.fault() == errors[0]);
  expect_error(ErrorKind::unavailable, {self.group.fault()}, [&] {
    std::vector<float> x(5, 1);
    self.group.all_reduce(self.stream, view(x))->wait();
  });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
