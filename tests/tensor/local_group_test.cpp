#include "tensor/cpu/local_group.h"

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/contract/group_members.h"

namespace troupe::test {

class LocalMembers : public MemberThreads {
 public:
  explicit LocalMembers(int size) : MemberThreads(size) { groups = tensor::make_local_group(size); }
};

using GroupWorlds = std::tuple<LocalMembers>;

}  // namespace troupe::test

#include "tests/contract/group_contract.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(local_group)

namespace {

/// What each member was told when it made its call.
std::vector<std::string> told(
    int size, const std::function<std::unique_ptr<tensor::Work>(const GroupMember&)>& call) {
  LocalMembers members(size);
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  members.run([&](const GroupMember& self) {
    try {
      call(self)->wait();
    } catch (const Error& error) {
      errors[static_cast<std::size_t>(self.number)] = error.what();
    }
  });
  return errors;
}

BOOST_AUTO_TEST_CASE(members_whose_calls_do_not_fit_are_told) {
  std::vector<float> a(100, 1), b(100, 1), less(99, 1);
  std::vector<std::int32_t> whole(100, 1);
  const std::string all_reduces =
      "members 0 and 1 of a group call all-reduce and all-reduce, which do not fit";
  const auto other = told(2, [&](const GroupMember& self) {
    return self.number == 0 ? self.group.all_reduce(self.stream, view(a))
                            : self.group.broadcast(self.stream, view(b), 1);
  });
  BOOST_TEST(other[0] ==
             "members 0 and 1 of a group call all-reduce and broadcast, which do not fit");
  BOOST_TEST(other[0] == other[1]);
  const auto sizes = told(2, [&](const GroupMember& self) {
    return self.group.all_reduce(self.stream, view(self.number == 0 ? a : less));
  });
  const auto types = told(2, [&](const GroupMember& self) {
    return self.group.all_reduce(self.stream, self.number == 0 ? view(a) : view(whole));
  });
  const auto reductions = told(2, [&](const GroupMember& self) {
    const bool is_first = self.number == 0;
    return self.group.all_reduce(self.stream, view(is_first ? a : b),
                                 is_first ? tensor::Reduction::sum : tensor::Reduction::max);
  });
  for (const auto& errors : {sizes, types, reductions})
    for (const std::string& error : errors) BOOST_TEST(error == all_reduces);
}

BOOST_AUTO_TEST_CASE(members_that_expect_other_counts_are_told) {
  std::vector<float> in(4, 1), out(4);
  const std::vector<std::int64_t> even{2, 2}, uneven{3, 1};
  const auto errors = told(2, [&](const GroupMember& self) {
    std::vector<float> mine(4, 1), theirs(4);
    return self.number == 0
               ? self.group.all_to_all(self.stream, view(mine), view(theirs), uneven, uneven)
               : self.group.all_to_all(self.stream, view(in), view(out), even, even);
  });
  for (const std::string& error : errors)
    BOOST_TEST(error ==
               "members 0 and 1 of a group call all-to-all and all-to-all, which do not fit");
}

// A member that left one early could free what the others still read.
BOOST_AUTO_TEST_CASE(a_collective_completes_for_all_members_or_for_none) {
  for (int last = 0; last < 50; ++last) {
    LocalMembers members(3);
    std::atomic<int> completed = 0;
    std::vector<int> counts(3);
    std::thread supervisor([&] {
      while (completed < last) std::this_thread::yield();
      members.groups[2]->abort("enough");
    });
    BOOST_TEST(members.all([&](const GroupMember& self) {
      int& count = counts[static_cast<std::size_t>(self.number)];
      for (;; ++count) {
        std::vector<float> x = numbered(self, 1000);
        try {
          self.group.all_reduce(self.stream, view(x))->wait();
        } catch (const Error&) {
          return x == numbered(self, 1000);
        }
        if (x != std::vector<float>(1000, sum_of_members(3))) return false;
        if (self.number == 0) ++completed;
      }
    }));
    supervisor.join();
    BOOST_TEST((counts == std::vector<int>(3, counts[0])));
    BOOST_TEST(counts[0] >= last);
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
