#include <sched.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/contract/messages.h"
#include "tests/support/expect_error.h"
#include "tests/transport/ucx/child_process.h"
#include "tests/transport/ucx/chosen_transports.h"
#include "tests/transport/ucx/echo_process.h"
#include "transport/node/ucx_node.h"

// Ranks in processes of their own, which may be killed: rank 0 is the test, rank 1 its child.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(ucx_processes_test)

namespace {

namespace utf = boost::unit_test;
using transport::UcxNode;

const auto kTransports = utf::data::make({"shm,self", "tcp,self"});

BOOST_AUTO_TEST_CASE(echo, *utf::disabled()) {
  follow_job(ChildProcess::parent());
}

/// The same where the system gives no segments, if this user may arrange that.
BOOST_AUTO_TEST_CASE(echo_without_segments, *utf::disabled()) {
  const TestSocket parent = ChildProcess::parent();
  const bool limited = ::unshare(CLONE_NEWIPC) == 0 &&
                       (std::ofstream("/proc/sys/kernel/shmmni") << 0 << std::flush).good();
  parent.send(limited ? "limited" : "not allowed");
  if (!limited) return;
  follow_job(parent);
  std::_Exit(0);  // UCX 1.13 leaks what it had made of a worker that it could not create
}

std::unique_ptr<ChildProcess> start_echo(UcxNode& node, std::uint64_t incarnation,
                                         const ChildJob& job) {
  return start_job("ucx_processes_test/echo", node, incarnation, job);
}

/// System V segments of these processes that are still there.
int segments_of(const std::set<pid_t>& pids) {
  std::ifstream file("/proc/sysvipc/shm");
  std::string line;
  std::getline(file, line);
  int found = 0;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    long key = 0, id = 0, permissions = 0, size = 0;
    pid_t creator = 0;
    fields >> key >> id >> permissions >> size >> creator;
    found += static_cast<int>(pids.count(creator));
  }
  return found;
}

BOOST_DATA_TEST_CASE(two_processes_exchange_tensors, kTransports, transports) {
  const ChosenTransports chosen(transports);
  for (const std::int64_t elements : {100, 300'000}) {
    const ChildJob job{.elements = elements, .steps = 50};
    const auto node = UcxNode::create({.environment = transport::prepare_ucx()});
    const auto child = start_echo(*node, 1, job);
    BOOST_TEST(do_steps(node->channel(), job));
    BOOST_TEST(child->socket().receive() == "done");
    child->socket().send("end");
    BOOST_TEST(child->wait() == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_process_without_shared_memory_exchanges_tensors_with_one_that_has_it) {
  for (const std::int64_t elements : {100, 300'000}) {
    auto child = std::make_unique<ChildProcess>("ucx_processes_test/echo_without_segments");
    const std::string could = child->socket().receive();
    BOOST_TEST_MESSAGE("segments are " << could);
    if (could != "limited") return;
    const auto node = UcxNode::create({.environment = {}});
    BOOST_TEST(node->shares_memory());
    const ChildJob job{.elements = elements, .steps = 50};
    begin_job(*node, *child, 1, job);
    BOOST_TEST(do_steps(node->channel(), job));
    BOOST_TEST(child->socket().receive() == "done");
    child->socket().send("end");
    BOOST_TEST(child->wait() == 0);
  }
}

BOOST_DATA_TEST_CASE(a_killed_process_is_replaced, kTransports, transports) {
  const ChosenTransports chosen(transports);
  const auto environment = transport::prepare_ucx();
  std::set<pid_t> pids{::getpid()};
  {
    auto node = UcxNode::create({.environment = environment});
    for (std::uint32_t life = 1; life <= 4; ++life) {
      if (life > 1 && node->shares_memory()) node = UcxNode::create({.environment = environment});
      const ChildJob job{.configuration = life, .elements = 200'000, .steps = kEndless};
      const auto child = start_echo(*node, life, job);
      pids.insert(child->pid());
      auto stream = runner([&] { return do_steps(node->channel(), job); });
      until([&] { return node->channel().counts().edges.at(0).bytes > 20u * 800'000; });
      child->kill();
      node->disconnect(1);
      expect_error(ErrorKind::unavailable, {"the connection to rank 1 is lost"},
                   [&] { stream.get(); });
    }
  }
  BOOST_TEST(segments_of(pids) == 0);
}

BOOST_AUTO_TEST_CASE(over_tcp_a_death_is_noticed_without_help) {
  const ChosenTransports chosen("tcp,self");
  const auto node = UcxNode::create({.environment = transport::prepare_ucx()});
  const ChildJob job{.elements = 200'000, .steps = kEndless};
  const auto child = start_echo(*node, 1, job);
  auto stream = runner([&] { return do_steps(node->channel(), job); });
  until([&] { return node->channel().counts().edges.at(0).bytes > 20u * 800'000; });
  child->kill();
  expect_error(ErrorKind::unavailable, {"the connection to rank 1 is lost"}, [&] { stream.get(); });
}

BOOST_DATA_TEST_CASE(a_stopped_process_is_named_by_the_deadline, kTransports, transports) {
  const ChosenTransports chosen(transports);
  const auto node = UcxNode::create({.environment = transport::prepare_ucx()});
  const auto child = start_echo(*node, 1, {.elements = 200'000, .steps = kEndless});
  BOOST_TEST(do_steps(node->channel(), {.steps = 3}));
  child->signal(SIGSTOP);
  node->channel().set_deadline(std::chrono::milliseconds(50));
  send_message(node->channel(), forth(3));
  expect_error(ErrorKind::unavailable, {"waited 0.05 s for gradient of step 3", "from rank 1"},
               [&] { node->channel().receive(back(3)); });
  child->kill();
  node->disconnect(1);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
