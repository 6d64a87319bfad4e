#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <map>
#include <sstream>

#include "tests/contract/messages.h"
#include "tests/support/expect_error.h"
#include "tests/support/reachable_device.h"
#include "tests/transport/ucx/child_process.h"
#include "tests/transport/ucx/node_processes.h"
#include "transport/node/ucx_node.h"

// Edges of devices between processes, one of which may be killed while the other one has its slots
// mapped or pinned: rank 0 is the test, rank 1 its child.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(device_processes_test)

namespace {

namespace utf = boost::unit_test;
using transport::EdgeChoice;
using transport::EdgePlacement;
using transport::UcxNode;

constexpr std::uint64_t kEndless = 1ull << 40;
constexpr std::int64_t kElements = 200'000;
const auto kChoices = utf::data::make({1, 2});  // EdgeChoice::peer, EdgeChoice::staged

void open(UcxNode& node, int rank, std::uint32_t configuration, int choice,
          tensor::Device& device) {
  node.channel().open({.run = kRun,
                       .configuration = configuration,
                       .rank = rank,
                       .edges = two_way({kElements}, 2),
                       .device = &device,
                       .choice = static_cast<EdgeChoice>(choice)});
}

/// Sends back one gradient for each activation; then waits to be told to end.
BOOST_AUTO_TEST_CASE(echo, *utf::disabled()) {
  const TestSocket parent = ChildProcess::parent();
  std::uint32_t configuration = 0;
  int choice = 0;
  std::uint64_t steps = 0;
  std::istringstream(parent.receive()) >> configuration >> choice >> steps;
  ReachableDevice device;
  const auto node = node_of_child(parent);
  open(*node, 1, configuration, choice, device);
  parent.send("open");
  for (std::uint64_t step = 0; step < steps; ++step) {
    if (!receive_message(node->channel(), forth(step))) ::_exit(3);
    send_message(node->channel(), back(step));
  }
  node->channel().flush();
  parent.send("done");
  parent.receive();
}

std::unique_ptr<ChildProcess> start_echo(UcxNode& node, tensor::Device& device,
                                         std::uint32_t configuration, int choice,
                                         std::uint64_t steps) {
  auto child = std::make_unique<ChildProcess>("device_processes_test/echo");
  child->socket().send(std::to_string(configuration) + ' ' + std::to_string(choice) + ' ' +
                       std::to_string(steps));
  introduce(node, *child, configuration);
  open(node, 0, configuration, choice, device);
  child->socket().receive();
  return child;
}

bool exchange(Channel& channel, std::uint64_t steps) {
  bool ok = true;
  for (std::uint64_t step = 0; step < steps; ++step) {
    send_message(channel, forth(step));
    ok = receive_message(channel, back(step)) && ok;
  }
  return ok;
}

}  // namespace

BOOST_DATA_TEST_CASE(two_processes_exchange_tensors_of_devices, kChoices, choice) {
  ReachableDevice device;
  const auto node = UcxNode::create({.environment = transport::prepare_ucx()});
  const auto child = start_echo(*node, device, 1, choice, 50);
  BOOST_TEST(exchange(node->channel(), 50));
  const auto placements = node->channel().counts().placements;
  BOOST_TEST_REQUIRE(placements.size() == 1u);
  const auto wanted = choice == 1 ? EdgePlacement::peer : EdgePlacement::staged;
  BOOST_TEST((placements[0] == transport::PeerPlacement{.peer = 1, .placement = wanted}));
  BOOST_TEST(child->socket().receive() == "done");
  child->socket().send("end");
  BOOST_TEST(child->wait() == 0);
}

BOOST_DATA_TEST_CASE(slots_outlive_a_killed_process, kChoices, choice) {
  ReachableDevice device;
  const auto environment = transport::prepare_ucx();
  auto node = UcxNode::create({.environment = environment});
  for (std::uint32_t life = 1; life <= 4; ++life) {
    if (life > 1) node = UcxNode::create({.environment = environment});
    const auto child = start_echo(*node, device, life, choice, kEndless);
    auto stream = runner([&] { return exchange(node->channel(), kEndless); });
    until([&] { return node->channel().counts().edges.at(0).bytes > 20u * 4 * kElements; });
    child->kill();
    // The slots of the dead process are mapped here still.
    node->disconnect(1);
    expect_error(ErrorKind::unavailable, {"the connection to rank 1 is lost"},
                 [&] { stream.get(); });
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
