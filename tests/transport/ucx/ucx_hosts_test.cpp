#include <arpa/inet.h>
#include <sys/socket.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "tests/contract/messages.h"
#include "tests/support/expect_error.h"
#include "tests/transport/ucx/chosen_transports.h"
#include "tests/transport/ucx/group_members.h"
#include "tests/transport/ucx/ucx_nodes.h"
#include "transport/ucx/network_interface.h"
#include "transport/ucx/ucx_worker.h"

// Nodes that are told to be on several hosts.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(ucx_hosts_test)

namespace {

using transport::FileDescriptor;
using transport::UcxNode;

/// Memory that a message from rank 0 lies in at rank 1.
std::shared_ptr<transport::SlotMemory> memory_of_message(UcxNodes& nodes) {
  for (int rank = 0; rank < 2; ++rank)
    nodes.channel(rank).open(
        {.run = kRun, .configuration = 1, .rank = rank, .edges = two_way({50'000}, 1)});
  send_message(nodes.channel(0), forth(1));
  BOOST_TEST(holds_message(nodes.channel(1).receive(forth(1)), forth(1)));
  return nodes.channel(1).keep(forth(1));
}

BOOST_AUTO_TEST_CASE(slots_are_shared_within_a_host_alone) {
  UcxNodes together(2), apart(2, {.environment = transport::prepare_ucx()}, 1);
  BOOST_TEST(apart.node(0).shares_memory());
  BOOST_TEST(memory_of_message(together)->name().id != transport::SegmentName::kNone);
  BOOST_TEST(memory_of_message(apart)->name().id == transport::SegmentName::kNone);
}

/// The sums of all members, and what the first of two hosts gathers.
std::vector<float> results_of(GroupMembers& members) {
  constexpr std::size_t kCount = 200'001;
  std::vector<float> first;
  members.run([&](const GroupMember& self) {
    std::vector<float> sum = values_of<float>(7, self.number, kCount);
    std::vector<float> all(kCount * 4);
    auto summing = self.group.all_reduce(self.stream, view(sum));
    auto mine = values_of<float>(8, self.number, kCount);
    auto gathering = self.group.all_gather(self.stream, view(mine), view(all));
    summing->wait();
    gathering->wait();
    self.stream.synchronize();
    sum.insert(sum.end(), all.begin(), all.end());
    if (self.number == 0) first = sum;
  });
  return first;
}

BOOST_AUTO_TEST_CASE(a_group_gives_the_same_bits_on_one_host_and_on_two) {
  GroupMembers together(4), apart(4, 2), alone(4, 1);
  const std::vector<float> expected = results_of(together);
  BOOST_TEST(expected.size() > 0u);
  BOOST_TEST(same_bits(results_of(apart), expected));
  BOOST_TEST(same_bits(results_of(alone), expected));
}

/// What all members have sent.
transport::SentBytes sent_by(GroupMembers& members) {
  transport::SentBytes all;
  for (int rank = 0; rank < 4; ++rank) {
    const transport::SentBytes sent = members.nodes.node(rank).sent();
    all.on_this_host += sent.on_this_host;
    all.to_other_hosts += sent.to_other_hosts;
  }
  return all;
}

BOOST_AUTO_TEST_CASE(what_is_sent_counts_by_where_it_goes) {
  UcxNodes near(2), far(2, {.environment = transport::prepare_ucx()}, 1);
  for (UcxNodes* nodes : {&near, &far}) memory_of_message(*nodes);
  BOOST_TEST(near.node(0).sent().on_this_host > 0u);
  BOOST_TEST(near.node(0).sent().to_other_hosts == 0u);
  BOOST_TEST(far.node(0).sent().on_this_host == 0u);
  BOOST_TEST(far.node(0).sent().to_other_hosts == near.node(0).sent().on_this_host);
  GroupMembers together(4), apart(4, 2), alone(4, 1);
  for (GroupMembers* members : {&together, &apart, &alone}) results_of(*members);
  const std::uint64_t all = sent_by(together).on_this_host;
  BOOST_TEST(all > 0u);
  BOOST_TEST(sent_by(together).to_other_hosts == 0u);
  BOOST_TEST(sent_by(alone).to_other_hosts == all);
  // Of the three others that each member exchanges with, one is on its host.
  BOOST_TEST(sent_by(apart).on_this_host + sent_by(apart).to_other_hosts == all);
  BOOST_TEST(sent_by(apart).to_other_hosts > sent_by(apart).on_this_host);
}

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// A port of this host at which nobody answers any more, not even to refuse: a full queue of
/// connections drops what asks for one, as a host does that is gone.
class SilentPort {
 public:
  explicit SilentPort(int port) : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_in address = loopback(port);
    const auto* const to = reinterpret_cast<const sockaddr*>(&address);
    BOOST_REQUIRE(::bind(listener_.get(), to, sizeof address) == 0);
    BOOST_REQUIRE(::listen(listener_.get(), 0) == 0);
    for (const auto& client : clients_) ::connect(client.get(), to, sizeof address);
  }

 private:
  static int client() { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }
  FileDescriptor listener_;
  std::array<FileDescriptor, 4> clients_{FileDescriptor(client()), FileDescriptor(client()),
                                         FileDescriptor(client()), FileDescriptor(client())};
};

/// A port that was free a moment ago.
int free_port() {
  const FileDescriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  BOOST_REQUIRE(::bind(probe.get(), at, length) == 0);
  BOOST_REQUIRE(::getsockname(probe.get(), at, &length) == 0);
  return ntohs(address.sin_port);
}

/// A node that other hosts reach at these ports.
std::unique_ptr<UcxNode> node_at(const std::string& ports) {
  const ChosenNetwork network({.interface = "127.0.0.1", .ports = ports});
  return UcxNode::create({.environment = network.environment});
}

std::string just(int port) {
  return std::to_string(port) + "-" + std::to_string(port);
}

BOOST_AUTO_TEST_CASE(a_host_that_does_not_answer_holds_up_nobody) {
  const ChosenTransports chosen("tcp,self");
  const int port = free_port();
  const std::string gone = node_at(just(port))->address();
  const SilentPort silent(port);
  const ChosenNetwork network({.interface = "127.0.0.1", .ports = ""});
  UcxNodes nodes(2, {.environment = network.environment}, 1);
  for (int rank = 0; rank < 2; ++rank)
    nodes.channel(rank).open(
        {.run = kRun, .configuration = 1, .rank = rank, .edges = two_way({100}, 2)});
  const auto begin = std::chrono::steady_clock::now();
  nodes.node(0).connect(2, 1, gone, false);
  const std::chrono::duration<double> connecting = std::chrono::steady_clock::now() - begin;
  BOOST_TEST_MESSAGE("connect took " << 1e3 * connecting.count() << " ms");
  for (std::uint64_t step = 0; step < 100; ++step) {
    send_message(nodes.channel(0), forth(step));
    BOOST_TEST(receive_message(nodes.channel(1), forth(step)));
    send_message(nodes.channel(1), back(step));
    BOOST_TEST(receive_message(nodes.channel(0), back(step)));
  }
  nodes.node(0).disconnect(2);
  nodes.node(0).connect(2, 2, gone, false);
  nodes.kill(0);
  // The system alone would give the host up after more than two minutes.
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
  BOOST_TEST(all.count() < 30);
}

BOOST_AUTO_TEST_CASE(nodes_listen_on_given_ports_or_say_that_none_is_free) {
  const ChosenTransports chosen("tcp,self");
  int port = free_port();
  while (!transport::is_free_port(port + 1, "127.0.0.1")) port = free_port();
  const std::string ports = std::to_string(port) + "-" + std::to_string(port + 1);
  const auto first = node_at(ports), second = node_at(ports);
  for (const int used : {port, port + 1}) {
    const FileDescriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback(used);
    const auto* const to = reinterpret_cast<const sockaddr*>(&address);
    BOOST_TEST(::connect(client.get(), to, sizeof address) == 0);
  }
  expect_error(ErrorKind::unavailable, {"none of the TCP ports " + ports, "127.0.0.1", "is free"},
               [&] { node_at(ports); });
}

BOOST_AUTO_TEST_CASE(an_interface_that_does_not_exist_is_named) {
  expect_error(ErrorKind::unavailable, {"\"no_such_card\"", "127.0.0.1"},
               [] { transport::prepare_ucx({.interface = "no_such_card", .ports = ""}); });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
