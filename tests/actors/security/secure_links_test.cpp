#include "actors/security/secure_links.h"

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/io/middleman.hpp>
#include <caf/scoped_actor.hpp>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "actors/messages/control_plane.h"
#include "actors/security/tls.h"
#include "tests/support/expect_error.h"
#include "tests/support/seed.h"

// TLS links between actor systems, each of which stands for a process. Bounds of time are loose:
// what they exclude are waits for a stranger, which are of 10 s and more.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(secure_links_test)

namespace {

using namespace std::chrono_literals;
using namespace troupe::actors;
using Clock = std::chrono::steady_clock;

constexpr auto kLong = 30s;
const char* const kHere = "127.0.0.1";

class System {
 public:
  ~System() {
    for (const caf::actor& actor : actors_)
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  }
  template <typename Behavior>
  caf::actor spawn(Behavior behavior) {
    return actors_.emplace_back(system.spawn(behavior));
  }

  ControlPlaneConfig config{1};
  caf::actor_system system{config};

 private:
  std::vector<caf::actor> actors_;
};

caf::behavior adder(caf::event_based_actor*) {
  return {[](int number) { return number + 1; }};
}

/// Asks an adder, from any thread. Returns how long it took.
Clock::duration ask(caf::actor_system& system, const caf::actor& adds) {
  const auto begin = Clock::now();
  caf::scoped_actor self{system};
  int sum = 0;
  self->request(adds, kLong, 41)
      .receive([&](int number) { sum = number; }, [](const caf::error&) {});
  return sum == 42 ? Clock::now() - begin : Clock::duration::max();
}

/// A director, at which a host has arrived.
class Run {
 public:
  explicit Run(const std::string& address = kHere) : address_(address) {
    port_ = director.publish(at_director.spawn(adder), address, {});
    adds = host.connect(address, port_, kLong);
  }
  int port() const { return port_; }
  void check_works() { BOOST_TEST((ask(at_host.system, adds) < 5s)); }
  void refuse(Role role, const Credentials& own, const std::vector<std::string>& words) {
    System stranger;
    SecureLinks links(stranger.system, role, own);
    expect_error(ErrorKind::unavailable, words, [&] { links.connect(address_, port_, kLong); });
  }
  /// Waits until so many strangers are counted.
  void check_refused(std::uint64_t count) {
    for (const auto end = Clock::now() + kLong; director.refused() < count && Clock::now() < end;)
      std::this_thread::sleep_for(5ms);
    BOOST_TEST(director.refused() == count);
    check_works();
  }

  const Authority authority;
  System at_director, at_host;
  SecureLinks director{at_director.system, Role::director,
                       authority.issue(Role::director, "director")};
  SecureLinks host{at_host.system, Role::host, authority.issue(Role::host, "host")};
  caf::actor adds;

 private:
  const std::string address_;
  int port_ = 0;
};

Socket connection(int port) {
  return connect_to(kHere, port, Clock::now() + kLong);
}

}  // namespace

BOOST_AUTO_TEST_CASE(messages_reach_a_worker_behind_its_hosts_plain_door_and_come_back) {
  Run run;
  // The door tells a worker the director's handle; the worker tells the director its own.
  System worker;
  const caf::actor adds = run.adds;
  const auto door = run.at_host.spawn([adds](caf::event_based_actor*) -> caf::behavior {
    return {[adds](caf::ok_atom) { return adds; }};
  });
  const auto door_port = run.at_host.system.middleman().publish(door, 0, kHere);
  BOOST_REQUIRE(static_cast<bool>(door_port));
  const auto entered = worker.system.middleman().remote_actor(kHere, *door_port);
  BOOST_REQUIRE(static_cast<bool>(entered));
  caf::scoped_actor self{worker.system};
  caf::actor director;
  self->request(*entered, kLong, caf::ok_atom::value)
      .receive([&](const caf::actor& handle) { director = handle; },
               [&](const caf::error& error) { BOOST_ERROR(worker.system.render(error)); });
  BOOST_REQUIRE(director);
  BOOST_TEST((director.node() == run.at_director.system.node()));
  BOOST_TEST((ask(worker.system, director) < 5s));
  // Large and many, in both directions: nothing is lost or changed on the way.
  const auto echo = run.at_director.spawn([](caf::event_based_actor*) -> caf::behavior {
    return {[](caf::ok_atom, const std::string& text) { return text; }};
  });
  const int port = run.director.publish(echo, kHere, {});
  const caf::actor echoes = run.host.connect(kHere, port, kLong);
  caf::scoped_actor host{run.at_host.system};
  for (const std::size_t size : {0u, 1u, 16'383u, 16'385u, 100'000u, 20'000'000u, 7u}) {
    std::string text(size, 'x');
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 >> 3);
    host->request(echoes, kLong, caf::ok_atom::value, text)
        .receive([&](const std::string& back) { BOOST_TEST((back == text)); },
                 [&](const caf::error& error) { BOOST_ERROR(worker.system.render(error)); });
  }
  run.check_works();
}

BOOST_AUTO_TEST_CASE(holds_with_ipv6) {
  try {
    listen_on("::1", {});
  } catch (const Error&) {
    BOOST_TEST_MESSAGE("skipped: this machine has no IPv6");
    return;
  }
  Run run("::1");
  run.check_works();
}

BOOST_AUTO_TEST_CASE(only_hosts_of_the_run_are_let_in) {
  Run run;
  const Authority other;
  run.refuse(Role::host, other.issue(Role::host, "h"), {std::to_string(run.port()), "certificate"});
  run.check_refused(1);
  run.refuse(Role::host, run.authority.issue(Role::director, "h"), {"refused this side"});
  run.check_refused(2);
  run.refuse(Role::host, run.authority.issue(Role::command, "h"), {"refused this side"});
  run.check_refused(3);
  System plain;
  BOOST_TEST(!plain.system.middleman().remote_actor(kHere, static_cast<std::uint16_t>(run.port())));
  run.check_refused(4);
}

BOOST_AUTO_TEST_CASE(one_without_a_certificate_is_refused) {
  Run run;
  const OwnedContext context(SSL_CTX_new(TLS_client_method()));
  const OwnedSession session(SSL_new(context.get()));
  const Socket socket = connection(run.port());
  SSL_set_fd(session.get(), socket.fd());
  SSL_set_connect_state(session.get());
  char byte = 0;
  while (SSL_read(session.get(), &byte, 1) <= 0 && SSL_want_read(session.get()))
    if (!wait_for(socket.fd(), POLLIN, Clock::now() + kLong)) break;
  run.check_refused(1);
}

BOOST_AUTO_TEST_CASE(strangers_end_no_link_and_slow_nobody) {
  Run run;
  std::mt19937 random(fresh_seed());
  std::vector<Socket> silent;
  std::atomic<bool> over = false;
  std::atomic<int> slow = 0, asked = 0;
  std::thread asks([&] {
    for (; !over; ++asked)
      if (ask(run.at_host.system, run.adds) > 5s) ++slow;
  });
  constexpr int kStrangers = 40;
  for (int i = 0; i < kStrangers; ++i) {
    silent.push_back(connection(run.port()));
    const Socket loud = connection(run.port());
    std::string bytes(5000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (i % 2 == 0) bytes.replace(0, 5, "\x16\x03\x01\x01\x00", 5);  // as a handshake begins
    (void)send(loud.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    System host;
    SecureLinks links(host.system, Role::host, run.authority.issue(Role::host, "another"));
    BOOST_TEST((ask(host.system, links.connect(kHere, run.port(), kLong)) < 5s));
  }
  over = true;
  asks.join();
  BOOST_TEST(slow == 0);
  BOOST_TEST(asked > kStrangers);
  run.check_refused(kStrangers);
  silent.clear();
  run.check_refused(2 * kStrangers);
}

BOOST_AUTO_TEST_CASE(of_many_silent_strangers_the_oldest_are_cut_off) {
  Run run;
  std::vector<Socket> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(connection(run.port()));
  BOOST_TEST(wait_for(silent.front().fd(), POLLIN, Clock::now() + kLong));
  char byte = 0;
  BOOST_TEST(recv(silent.front().fd(), &byte, 1, 0) == 0);
  run.check_refused(300 - 256);
}

BOOST_AUTO_TEST_CASE(a_host_cannot_pose_as_the_director) {
  const Authority authority;
  System wicked, host;
  SecureLinks poses(wicked.system, Role::director, authority.issue(Role::host, "h"));
  const int port = poses.publish(wicked.spawn(adder), kHere, {});
  SecureLinks links(host.system, Role::host, authority.issue(Role::host, "h"));
  expect_error(ErrorKind::unavailable, {std::to_string(port), "purpose"},
               [&] { links.connect(kHere, port, kLong); });
}

BOOST_AUTO_TEST_CASE(waits_no_longer_than_it_is_told) {
  System host;
  SecureLinks links(host.system, Role::host, Authority().issue(Role::host, "h"));
  const Socket silent = listen_on(kHere, {});
  const auto begin = Clock::now();
  expect_error(ErrorKind::retry, {std::to_string(port_of(silent)), "does not answer in TLS"},
               [&] { links.connect(kHere, port_of(silent), 300ms); });
  BOOST_TEST((Clock::now() - begin < 5s));
  const int closed = port_of(listen_on(kHere, {}));
  expect_error(ErrorKind::unavailable, {std::to_string(closed), "refused"},
               [&] { links.connect(kHere, closed, kLong); });
  expect_error(ErrorKind::unavailable, {"192.0.2.1:9"}, [&] {
    links.publish(host.spawn(adder), "192.0.2.1", {9, 9});
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
