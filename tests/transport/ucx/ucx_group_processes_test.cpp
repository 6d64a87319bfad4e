#include <atomic>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <sstream>

#include "tests/contract/messages.h"
#include "tests/support/expect_error.h"
#include "tests/transport/ucx/chosen_transports.h"
#include "tests/transport/ucx/group_members.h"
#include "tests/transport/ucx/node_processes.h"

// A group of two processes, one of which may be killed: member 0 is the test, member 1 its child.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(ucx_group_processes_test)

namespace {

namespace utf = boost::unit_test;
using tensor::ProcessGroup;
using tensor::Work;
using transport::UcxNode;

const auto kTransports = utf::data::make({"shm,self", "tcp,self"});
const std::vector<std::string> kOperations{"all-reduce", "all-gather", "reduce-scatter",
                                           "all-to-all", "broadcast",  "barrier"};

/// A member's calls of every operation, each with more pieces than are under way at once.
class Caller {
 public:
  explicit Caller(ProcessGroup& group) : group_(group) {}

  /// Two collectives at a time, as replicas add up their gradients.
  void call(std::size_t operation) {
    const auto first = start(operation, a_, b_);
    const auto second = start(operation, c_, d_);
    first->wait();
    second->wait();
  }

 private:
  using Floats = std::vector<float>;
  static constexpr std::size_t kCount = 1'000'000;

  std::unique_ptr<Work> start(std::size_t operation, Floats& x, Floats& y) {
    const tensor::Tensor half = view(y, 0, kCount / 2);
    switch (operation) {
      case 0:
        return group_.all_reduce(stream_, view(x));
      case 1:
        return group_.all_gather(stream_, half, view(x));
      case 2:
        return group_.reduce_scatter(stream_, view(x), half);
      case 3:
        return group_.all_to_all(stream_, view(x), view(y));
      case 4:
        return group_.broadcast(stream_, view(x), 1);
      default:
        return group_.barrier(stream_);
    }
  }

  ProcessGroup& group_;
  MemberStream stream_;
  Floats a_ = Floats(kCount, 1), b_ = a_, c_ = a_, d_ = a_;
};

/// In the child: calls one operation as often as told, or for ever.
BOOST_AUTO_TEST_CASE(member, *utf::disabled()) {
  const TestSocket parent = ChildProcess::parent();
  const auto node = node_of_child(parent);
  std::size_t operation = 0;
  int calls = 0;
  std::istringstream(parent.receive()) >> operation >> calls;
  const auto group = node->make_group(kGroupRun, 1, 1, "replicas", {0, 1}, 1);
  Caller caller(*group);
  for (int done = 0; done < calls; ++done) caller.call(operation);
  parent.send("ready");
  parent.receive();
}

/// A group of this process and a child.
struct Pair {
  Pair(std::size_t operation, int calls) : child("ucx_group_processes_test/member") {
    introduce(*node, child, 1);
    child.socket().send(std::to_string(operation) + ' ' + std::to_string(calls));
    group = node->make_group(kGroupRun, 1, 1, "replicas", {0, 1}, 0);
  }

  std::unique_ptr<UcxNode> node = UcxNode::create({.environment = transport::prepare_ucx()});
  ChildProcess child;
  std::unique_ptr<ProcessGroup> group;
};

constexpr int kEndless = 1 << 30;

BOOST_DATA_TEST_CASE(a_killed_member_ends_a_collective, kTransports, transports) {
  const ChosenTransports chosen(transports);
  for (std::size_t operation = 0; operation < kOperations.size(); ++operation) {
    Pair pair(operation, 1);
    Caller caller(*pair.group);
    caller.call(operation);
    BOOST_TEST(pair.child.socket().receive() == "ready");
    auto waiter = runner([&] { caller.call(operation); });
    until([&] { return pair.node->channel().waiting().has_value(); });
    BOOST_TEST(pair.node->channel().waiting()->what ==
               kOperations[operation] + " 2 of group \"replicas\", missing rank 1");
    pair.child.kill();
    pair.node->disconnect(1);
    expect_error(ErrorKind::unavailable, {"replicas", "rank 1"}, [&] { waiter.get(); });
    BOOST_TEST(pair.group->fault().find("rank 1") != std::string::npos);
  }
}

/// A member may die at any point of a collective: the requests that UCX still has for it hold up
/// neither the collective nor the group.
BOOST_DATA_TEST_CASE(a_member_may_be_killed_at_any_moment, kTransports, transports) {
  const ChosenTransports chosen(transports);
  for (std::size_t operation = 0; operation < kOperations.size(); ++operation) {
    for (int life = 0; life < 4; ++life) {
      Pair pair(operation, kEndless);
      std::atomic<int> calls = 0;
      auto caller = runner([&] {
        Caller own(*pair.group);
        for (;; ++calls) own.call(operation);
      });
      until([&] { return calls > life; });
      pair.child.kill();
      if (life % 2 == 0) pair.group->abort("rank 1 has died");
      pair.node->disconnect(1);
      expect_error(ErrorKind::unavailable, {"replicas", "rank 1"}, [&] { caller.get(); });
    }
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
