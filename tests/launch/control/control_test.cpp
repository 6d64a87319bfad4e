#include <array>
#include <boost/test/unit_test.hpp>
#include <future>
#include <random>

#include "launch/control/control_client.h"
#include "launch/control/control_server.h"
#include "launch/control/event_json.h"
#include "tests/launch/control/served_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/mutate.h"
#include "tests/support/seed.h"

// The control socket over real connections, with a made-up run behind it.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(control_test)

namespace {

using namespace std::chrono_literals;
using launch::ControlAddress;
using launch::ControlClient;
using launch::ControlServer;
using nlohmann::json;

std::string frame_of(const std::string& body) {
  std::string frame;
  for (int i = 0; i < 4; ++i) frame += static_cast<char>(body.size() >> (8 * i) & 0xff);
  return frame + body;
}

}  // namespace

BOOST_AUTO_TEST_CASE(status_says_how_far_an_evaluation_and_a_checkpoint_are) {
  actors::RunStatus status{.state = "evaluating"};
  BOOST_TEST(launch::to_json(status, "run")["progress"].empty());
  status.evaluated = 3;
  status.evaluations = 50;
  status.saving = 40;
  status.checkpoint_bytes = 1000;
  status.ranks = {{.rank = 0, .saved_bytes = 300}, {.rank = 1, .saved_bytes = 200}};
  const json expected = json::parse(R"([
      {"what": "evaluation", "done": 3, "of": 50, "unit": "steps"},
      {"what": "checkpoint of step 40", "done": 500, "of": 1000, "unit": "bytes"}])");
  BOOST_TEST(launch::to_json(status, "run")["progress"] == expected);
}

BOOST_AUTO_TEST_CASE(status_is_answered_in_one_frame) {
  Served served;
  ControlClient client(served.address(), "status");
  const auto reply = client.receive(kLong);
  BOOST_REQUIRE(reply.has_value());
  BOOST_TEST(reply->at("run") == "run");
  BOOST_TEST(reply->at("ranks").is_array());
  BOOST_TEST(!client.receive(kLong).has_value());
  BOOST_TEST(served.stops == 0);
}

BOOST_AUTO_TEST_CASE(a_frame_may_arrive_byte_by_byte) {
  Served served;
  RawConnection slow(served.server.port());
  for (const char byte :
       launch::to_frame({{"token", served.server.token()}, {"request", "status"}}))
    slow.write(std::string(1, byte));
  BOOST_TEST(slow.read().find("\"step\":7") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(stop_is_accepted_at_once_and_answered_again_at_the_end) {
  Served served;
  ControlClient first(served.address(), "stop");
  BOOST_TEST(first.receive(kLong).value().at("accepted") == true);
  BOOST_TEST(served.stops == 1);
  ControlClient second(served.address(), "stop");
  BOOST_TEST(second.receive(kLong).value().at("accepted") == true);
  served.check_alive();
  served.server.finish({{"step", 12}});
  for (ControlClient* client : {&first, &second}) {
    BOOST_TEST(client->receive(kLong).value().at("ended").at("step") == 12);
    BOOST_TEST(!client->receive(kLong).has_value());
  }
}

BOOST_AUTO_TEST_CASE(who_asks_and_leaves_does_not_matter) {
  Served served;
  { ControlClient gone(served.address(), "stop"); }
  served.check_alive();
  served.server.finish({{"step", 1}});
}

BOOST_AUTO_TEST_CASE(unauthenticated_connections_are_closed_without_an_answer) {
  Served served;
  const std::string token = served.server.token();
  const std::string garbage[] = {
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
      std::string("\xff\xff\xff\xff", 4),  // a frame of 4 GiB
      std::string("\0\0\0\0", 4),          // an empty frame
      frame_of("no json"),
      frame_of("[]"),
      frame_of("{}"),
      frame_of(R"({"request":"stop"})"),
      frame_of(R"({"token":null,"request":"stop"})"),
      frame_of(R"({"token":"","request":"stop"})"),
      frame_of(R"({"token":")" + std::string(token.size(), '0') + R"(","request":"stop"})"),
      frame_of(R"({"token":")" + token + R"(x","request":"stop"})"),
      frame_of(R"({"token":")" + token + R"("})"),
      frame_of(std::string(60000, '[')),
  };
  for (const std::string& bytes : garbage) {
    RawConnection unknown(served.server.port());
    unknown.write(bytes);
    unknown.hang_up();
    BOOST_TEST(unknown.read() == "", bytes.substr(0, 40));
  }
  BOOST_TEST(served.stops == 0);
  served.check_alive();
}

BOOST_AUTO_TEST_CASE(mutated_requests_do_no_harm) {
  std::mt19937_64 random(fresh_seed());
  Served served;
  const std::string frame =
      launch::to_frame({{"token", std::string(32, 'a')}, {"request", "stop"}});
  for (int i = 0; i < 200; ++i) {
    RawConnection unknown(served.server.port());
    unknown.write(mutated(frame, random));
    unknown.hang_up();
    BOOST_TEST(unknown.read() == "");
  }
  BOOST_TEST(served.stops == 0);
  served.check_alive();
}

BOOST_AUTO_TEST_CASE(an_attached_reader_gets_the_events_it_has_granted) {
  Served served;
  ControlClient reader(served.address(), "attach", {{"kinds", "step"}, {"credit", 1}});
  BOOST_TEST(reader.receive(kLong).value().at("attached").at("step") == 7);
  served.hub.publish({.step = 1, .body = actors::StepCommitted{.report = {.loss = 2.5}}});
  served.hub.publish({.body = actors::Note{.text = "not asked for"}});
  const json first = reader.receive(kLong).value();
  BOOST_REQUIRE(first.at("events").size() == 1u);
  BOOST_TEST(first.at("events")[0].at("loss") == 2.5);
  // No credit is left, so that later events wait for a grant.
  served.hub.publish({.step = 2, .body = actors::StepCommitted{}});
  served.check_alive();
  expect_error(ErrorKind::unavailable, {"no reply"}, [&] { reader.receive(200ms); });
  reader.send({{"credit", 1}});
  BOOST_TEST(reader.receive(kLong).value().at("events")[0].at("step") == 2);
}

/// A reader that never reads loses its own events and no other reader's, and the end of the run
/// waits for it no longer than for any other.
BOOST_AUTO_TEST_CASE(a_stopped_reader_holds_up_nobody) {
  Served served({.timeout = 50ms});
  ControlClient stopped(served.address(), "attach", {{"credit", 1000}});
  ControlClient reading(served.address(), "attach", {{"kinds", "note"}, {"credit", 1000}});
  BOOST_TEST(reading.receive(kLong).value().contains("attached"));
  const std::string text(100'000, 'x');
  std::uint64_t told = 0;
  for (std::uint64_t sent = 0; sent < 200;) {
    served.hub.publish({.body = actors::Note{.text = text}});
    if (++sent % 20 != 0) continue;
    while (told < sent) {
      const json frame = reading.receive(kLong).value();
      told += frame.at("events").size() + frame.at("dropped").get<std::uint64_t>();
    }
  }
  BOOST_TEST(told == 200u);
  served.check_alive();
  served.hub.close();
  served.server.finish({{"step", 9}});
  BOOST_TEST(reading.receive(kLong).value().at("ended").at("step") == 9);
}

BOOST_AUTO_TEST_CASE(a_run_is_told_who_attaches_and_who_leaves) {
  Served served;
  const auto told = served.hub.subscribe(
      {.kinds = actors::mask_of<actors::MonitorAttached, actors::MonitorDetached>()});
  { ControlClient reader(served.address(), "attach", {{"kinds", "step"}, {"who", "me"}}); }
  std::vector<std::string> kinds;
  while (kinds.size() < 2) {
    told->wait(kLong);
    for (const auto& event : told->take(10).events) kinds.emplace_back(kind_name(*event));
  }
  BOOST_TEST((kinds == std::vector<std::string>{"attached", "detached"}));
}

BOOST_AUTO_TEST_CASE(a_wrong_attach_is_answered_and_a_wrong_grant_ends_it) {
  Served served;
  const json wrong[] = {{{"kinds", "stp"}}, {{"kinds", 7}}, {{"credit", "many"}}, {{"who", {1}}}};
  for (const json& fields : wrong) {
    ControlClient client(served.address(), "attach", fields);
    BOOST_TEST(client.receive(kLong).value().contains("error"), fields.dump());
  }
  const json grants[] = {{{"credit", -1}}, {{"credit", "x"}}, {{"token", "x"}}, json::array()};
  for (const json& grant : grants) {
    ControlClient client(served.address(), "attach");
    BOOST_TEST(client.receive(kLong).value().contains("attached"));
    client.send(grant);
    BOOST_TEST(!client.receive(kLong).has_value());
  }
  served.check_alive();
}

BOOST_AUTO_TEST_CASE(readers_beyond_the_limit_are_refused_and_the_others_stay) {
  Served served({.max_readers = 2});
  ControlClient a(served.address(), "attach", {{"credit", 9}}), b(served.address(), "attach");
  BOOST_TEST(a.receive(kLong).value().contains("attached"));
  BOOST_TEST(b.receive(kLong).value().contains("attached"));
  ControlClient c(served.address(), "attach");
  BOOST_TEST(c.receive(kLong).value().contains("error"));
  served.hub.publish({.body = actors::Note{.text = "here"}});
  while (a.receive(kLong).value().dump().find("here") == std::string::npos) {
  }
}

BOOST_AUTO_TEST_CASE(an_unknown_request_is_told_what_there_is) {
  Served served;
  ControlClient client(served.address(), "dance");
  BOOST_TEST(client.receive(kLong).value().contains("error"));
}

BOOST_AUTO_TEST_CASE(more_connections_than_allowed_push_out_the_oldest_unauthenticated_ones) {
  Served served({.max_unauthenticated = 4});
  ControlClient stop(served.address(), "stop");
  BOOST_TEST(stop.receive(kLong).has_value());
  std::vector<std::unique_ptr<RawConnection>> crowd;
  for (int i = 0; i < 20; ++i)
    crowd.push_back(std::make_unique<RawConnection>(served.server.port()));
  served.check_alive();
  BOOST_TEST(crowd.front()->read() == "");  // closed by the server
  served.server.finish({{"step", 3}});
  // A client that had the token was kept.
  BOOST_TEST(stop.receive(kLong).value().contains("ended"));
}

BOOST_AUTO_TEST_CASE(who_says_nothing_or_reads_nothing_is_dropped) {
  // A status far larger than a socket's buffers.
  Served served({.timeout = 50ms}, std::string(3 << 20, 'r'));
  RawConnection silent(served.server.port());
  RawConnection deaf(served.server.port());
  deaf.write(launch::to_frame({{"token", served.server.token()}, {"request", "status"}}));
  BOOST_TEST(silent.read() == "");  // ends only because the server closes
  served.check_alive();
  served.server.finish({{"step", 3}});  // does not wait for ever for the deaf client
}

BOOST_AUTO_TEST_CASE(a_taken_port_is_named_with_the_way_out) {
  const ControlServer first({});
  expect_error(ErrorKind::manifest,
               {"cluster.port = " + std::to_string(first.port()), "0 takes any"},
               [&] { ControlServer second({.port = first.port()}); });
}

BOOST_AUTO_TEST_CASE(a_dead_launcher_is_named) {
  ControlAddress address{.host = "127.0.0.1", .token = "t", .pid = 4711};
  {
    const ControlServer gone({});
    address.port = gone.port();
  }
  expect_error(ErrorKind::unavailable, {"4711", std::to_string(address.port)},
               [&] { ControlClient(address, "status"); });
  address.host = "not an address";
  expect_error(ErrorKind::unavailable, {"not an address"},
               [&] { ControlClient(address, "status"); });
}

BOOST_AUTO_TEST_CASE(a_launcher_that_hangs_is_given_up) {
  const ControlServer hanging({});  // listens, never serves
  const ControlAddress address{
      .host = "127.0.0.1", .port = hanging.port(), .token = hanging.token(), .pid = 1};
  ControlClient client(address, "status");
  expect_error(ErrorKind::unavailable, {"no reply"}, [&] { client.receive(20ms); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
