#include "actors/agent/link_probe.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <future>
#include <vector>

#include "actors/agent/probe_port.h"
#include "tests/support/expect_error.h"
#include "transport/ucx/network_interface.h"

// Tests how hosts try the way to each other, on loopback.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(link_probe_test)

namespace {

using namespace actors;

const std::string kHere = "127.0.0.1";
const std::string kSecret = "a secret";

/// A port that nobody listens on.
int unused_port() {
  return port_of(listen_on(kHere, {}));
}

/// A port that answers nobody, not even to refuse: what asks a full queue for a connection is
/// dropped, as on the way to a host that is not there.
class SilentPort {
 public:
  SilentPort() : listener_(listen_on(kHere, {})) {
    listen(listener_.fd(), 0);
    for (int i = 0; i < 4; ++i) callers_.push_back(begin_connect(kHere, port_of(listener_)));
  }
  int port() const { return port_of(listener_); }

 private:
  Socket listener_;
  std::vector<Connected> callers_;
};

LinkProbe probe(const std::string& address, int port,
                const ProbeManner& manner = {.secret = kSecret}) {
  const std::vector<ProbeTarget> one{{.host = "h1", .address = address, .port = port}};
  return probe_links(one, manner, {}).at(0);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_way_that_is_there_is_measured) {
  for (const auto& interface : transport::network_interfaces()) {
    if (interface.address != kHere && interface.address != "::1") continue;
    const ProbePort port(interface.address, "", kSecret);
    const LinkProbe found =
        probe(interface.address, port.port(), {.secret = kSecret, .measures = true});
    BOOST_TEST(found.fault == "");
    BOOST_TEST((found.connected && found.host == "h1"));
    BOOST_TEST(found.to.ends_with(":" + std::to_string(port.port())));
    BOOST_TEST(found.round_trip_s > 0);
    BOOST_TEST(found.bytes_per_s > 0);
    BOOST_TEST(found.clock_error_s > 0);
    // Both clocks are one, which may be set meanwhile, but by little.
    BOOST_TEST(std::abs(found.clock_ahead_s) < found.clock_error_s + 1);
  }
}

BOOST_AUTO_TEST_CASE(a_way_without_end_or_with_a_closed_one_is_broken_and_says_why) {
  const LinkProbe closed = probe(kHere, unused_port());
  BOOST_TEST(!closed.connected);
  BOOST_TEST(closed.fault == "Connection refused");
  const SilentPort silent;
  const LinkProbe none = probe(kHere, silent.port(), {.secret = kSecret, .patience_s = 0.2});
  BOOST_TEST(!none.connected);
  BOOST_TEST(none.fault == "no answer within 0.2 s");
  const Socket mute = listen_on(kHere, {});
  const LinkProbe held = probe(kHere, port_of(mute), {.secret = kSecret, .patience_s = 0.2});
  BOOST_TEST(held.connected);
  BOOST_TEST(held.fault == "connected, but nothing moves for 0.2 s");
}

BOOST_AUTO_TEST_CASE(who_does_not_know_the_secret_is_cut_off) {
  const ProbePort port(kHere, "", kSecret);
  const LinkProbe found = probe(kHere, port.port(), {.secret = "b secret"});
  BOOST_TEST(found.connected);
  BOOST_TEST(found.fault != "");
  BOOST_TEST(probe(kHere, port.port()).fault == "");
}

BOOST_AUTO_TEST_CASE(many_ways_are_tried_at_a_time_and_told_in_order) {
  const ProbePort port(kHere, "", kSecret);
  const int closed = unused_port();
  std::vector<ProbeTarget> targets;
  for (int i = 0; i < 100; ++i)
    targets.push_back({.host = "h" + std::to_string(i),
                       .address = kHere,
                       .port = i % 10 == 7 ? closed : port.port()});
  const auto found = probe_links(targets, {.secret = kSecret}, {});
  for (int i = 0; i < 100; ++i) {
    BOOST_TEST(found.at(i).host == targets[i].host);
    BOOST_TEST(found.at(i).connected == (i % 10 != 7));
  }
}

BOOST_AUTO_TEST_CASE(callers_who_say_nothing_keep_nobody_out) {
  const ProbePort port(kHere, "", kSecret);
  std::vector<Connected> callers;
  for (int i = 0; i < 300; ++i) callers.push_back(begin_connect(kHere, port.port()));
  BOOST_TEST(probe(kHere, port.port()).fault == "");
}

BOOST_AUTO_TEST_CASE(a_probe_is_given_up_at_once_when_it_is_asked_to) {
  const SilentPort silent;
  std::stop_source stop;
  auto probing = std::async(std::launch::async, [&] {
    const std::vector<ProbeTarget> one{{.host = "h1", .address = kHere, .port = silent.port()}};
    return probe_links(one, {.secret = kSecret, .patience_s = 1e6}, stop.get_token());
  });
  stop.request_stop();
  BOOST_TEST(probing.get().at(0).fault == "it was given up");
}

BOOST_AUTO_TEST_CASE(a_port_lies_in_the_range_that_a_firewall_lets_pass) {
  const int first = unused_port();
  const std::string range = std::to_string(first) + "-" + std::to_string(first);
  const ProbePort port(kHere, range, kSecret);
  BOOST_TEST(port.port() == first);
  expect_error(ErrorKind::unavailable, {kHere + (":" + std::to_string(first)), "in use"},
               [&] { ProbePort(kHere, range, kSecret); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
