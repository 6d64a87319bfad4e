#include <atomic>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/reachable_device.h"
#include "tests/transport/ucx/child_process.h"
#include "tests/transport/ucx/echo_process.h"
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
using Part = ChildJob::Part;

constexpr std::int64_t kElements = 200'000;
constexpr auto kPeer = static_cast<int>(EdgeChoice::peer);
const auto kChoices = utf::data::make({kPeer, static_cast<int>(EdgeChoice::staged)});
const auto kParts = utf::data::make({Part::echo, Part::reads, Part::writes});

BOOST_AUTO_TEST_CASE(follow, *utf::disabled()) {
  ReachableDevice device;
  follow_job(ChildProcess::parent(), &device);
}

/// The job with its slots as this EdgeChoice says.
ChildJob placed(int choice, ChildJob job) {
  job.choice = static_cast<EdgeChoice>(choice);
  return job;
}

/// A process of each rank, and what rank 1 does.
struct Pair {
  Pair(int choice, const ChildJob& with)
      : job(placed(choice, with)),
        child(start_job("device_processes_test/follow", *node, job.configuration, job, &device)) {}
  Channel& channel() { return node->channel(); }
  /// The child is gone, and this process has been told.
  void lose_child() {
    child->kill();
    node->disconnect(1);
  }

  const ChildJob job;
  ReachableDevice device;
  const std::unique_ptr<UcxNode> node = UcxNode::create({.environment = transport::prepare_ucx()});
  const std::unique_ptr<ChildProcess> child;
};

}  // namespace

BOOST_DATA_TEST_CASE(two_processes_exchange_tensors_of_devices, kChoices, choice) {
  Pair pair(choice, {.elements = kElements, .steps = 50});
  BOOST_TEST(do_steps(pair.channel(), pair.job));
  const auto placements = pair.channel().counts().placements;
  BOOST_TEST_REQUIRE(placements.size() == 1u);
  const auto wanted = choice == kPeer ? EdgePlacement::peer : EdgePlacement::staged;
  BOOST_TEST((placements[0] == transport::PeerPlacement{.peer = 1, .placement = wanted}));
  BOOST_TEST(pair.child->socket().receive() == "done");
  pair.child->socket().send("end");
  BOOST_TEST(pair.child->wait() == 0);
}

BOOST_DATA_TEST_CASE(slots_outlive_a_killed_process, kChoices* kParts, choice, part) {
  for (std::uint32_t life = 1; life <= 3; ++life) {
    Pair pair(choice,
              {.configuration = life, .elements = kElements, .steps = kEndless, .part = part});
    std::atomic<std::uint64_t> steps{0};
    auto stream = runner([&] {
      while (do_step(pair.channel(), part, steps)) ++steps;
    });
    until([&] { return steps > 20; });
    // The slots of the dead process are mapped here still, and it may have had those of this one.
    pair.lose_child();
    expect_error(ErrorKind::unavailable, {"the connection to rank 1 is lost"},
                 [&] { stream.get(); });
  }
}

BOOST_DATA_TEST_CASE(what_is_written_for_a_killed_receiver_stays_written, kChoices, choice) {
  Pair pair(choice, {.elements = kElements, .steps = kEndless, .part = Part::reads});
  BOOST_TEST(do_steps(pair.channel(), {.steps = 5, .part = Part::reads}));
  const tensor::Tensor buffer = pair.channel().acquire(forth(5));
  std::memset(buffer.data, 1, buffer.num_bytes() / 2);
  pair.lose_child();
  std::memset(buffer.as<std::byte>() + buffer.num_bytes() / 2, 1, buffer.num_bytes() / 2);
  const std::vector<std::byte> all(buffer.num_bytes(), std::byte{1});
  BOOST_TEST(std::memcmp(buffer.data, all.data(), all.size()) == 0);
  expect_error(ErrorKind::unavailable, {"the connection to rank 1 is lost"}, [&] {
    pair.channel().send(forth(5), buffer);
    pair.channel().flush();
  });
}

BOOST_DATA_TEST_CASE(what_has_come_of_a_killed_sender_is_read_to_its_end, kChoices, choice) {
  Pair pair(choice, {.elements = kElements, .steps = kEndless, .part = Part::writes});
  const tensor::Tensor message = pair.channel().receive(back(0));
  pair.lose_child();
  BOOST_TEST(holds_message(message, back(0)));
  expect_error(ErrorKind::unavailable, {"the connection to rank 1 is lost"}, [&] {
    for (std::uint64_t step = 1;; ++step) pair.channel().receive(back(step));
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
