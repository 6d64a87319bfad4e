#include "launch/web/web_page.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "launch/manifest/checks/http_address.h"
#include "tests/launch/step_event.h"
#include "tests/support/expect_error.h"
#include "tests/support/http_get.h"

// The page over real connections. It has threads of its own, so that tests ask for published values
// until they are there.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(web_page_test)

namespace {

using namespace actors;
using launch::WebPage;
using nlohmann::json;

const launch::WatchedRun kRun{.name = "my <run>", .max_steps = 10};
const launch::HttpAddress kAnywhere = launch::parse_http_address("127.0.0.1:0");

json body_of(const std::string& answer) {
  return json::parse(answer.substr(answer.find("\r\n\r\n") + 4));
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_page_is_whole_and_needs_nothing_from_elsewhere) {
  Hub hub;
  const WebPage page(hub, kAnywhere, kRun);
  const std::string html = http_get(page.url());
  BOOST_TEST(html.find("200 OK") != std::string::npos);
  BOOST_TEST(html.find("<html") != std::string::npos);
  BOOST_TEST(html.find("</html>") != std::string::npos);
  BOOST_TEST(html.find("<title>my &lt;run&gt;</title>") != std::string::npos);
  // The only address in the page is the name of XHTML.
  for (std::size_t at = html.find("://"); at != std::string::npos; at = html.find("://", at + 1))
    BOOST_TEST(html.substr(at, 13) == "://www.w3.org");
}

BOOST_AUTO_TEST_CASE(the_state_follows_the_run_and_actions_are_recorded_while_somebody_looks) {
  Hub hub;
  const WebPage page(hub, kAnywhere, kRun);
  BOOST_TEST(!hub.wanted<ActionsTraced>());
  http_get(page.url() + "state?until=end");  // of a page that nobody sees
  BOOST_TEST(!hub.wanted<ActionsTraced>());
  http_get(page.url() + "state");
  BOOST_TEST(hub.wanted<ActionsTraced>());
  hub.publish({.configuration = 1,
               .step = 0,
               .body = MembershipChanged{.pipeline = {.pp = 2},
                                         .ranks = {{.rank = 0}, {.rank = 1, .stage = 1}}}});
  get_until(page.url() + "state", "rank 1: replica 0, stage 1");
  hub.publish(step_event(5, 1.5));
  for (int rank = 0; rank < 2; ++rank)
    hub.publish({.configuration = 1,
                 .step = 5,
                 .rank = rank,
                 .body = ActionsTraced{.actions = {{.name = "0F0", .begin_s = 1, .end_s = 2}},
                                       .complete = true}});
  get_until(page.url() + "state", "step 5 of 10");
  const json state = body_of(get_until(page.url() + "state", "0F0"));
  BOOST_TEST(state.at("title") == "my <run>: training");
  BOOST_TEST(!state.at("ended").get<bool>());
  BOOST_TEST(state.at("parts").size() == 9u);
}

BOOST_AUTO_TEST_CASE(readers_that_take_nothing_hold_up_no_other) {
  Hub hub;
  const WebPage page(hub, kAnywhere, kRun);
  const std::string url = page.url();
  std::vector<int> stopped;
  for (int i = 0; i < 4; ++i) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))));
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const int smallest = 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &smallest, sizeof smallest);
    BOOST_REQUIRE(connect(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0);
    const std::string request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    (void)send(fd, request.data(), request.size(), MSG_NOSIGNAL);
    stopped.push_back(fd);
  }
  hub.publish(step_event(5, 1.5));
  BOOST_TEST(get_until(url + "state", "step 5 of 10").find("200 OK") != std::string::npos);
  for (const int fd : stopped) close(fd);
}

BOOST_AUTO_TEST_CASE(orders_are_taken_of_those_who_have_the_token) {
  Hub hub;
  int stops = 0;
  const WebPage page(
      hub, kAnywhere, kRun, {},
      {.token = "secret", .run = {.stop = [&](const std::string&) { ++stops; }, .hub = &hub}});
  const auto order = [&](const std::string& body, const std::string& host = "") {
    return http_post(page.url() + "order", body, host);
  };
  BOOST_TEST(order(R"({"token":"guessed","request":"stop"})").find("403") != std::string::npos);
  BOOST_TEST(order(R"({"token":"secret","request":"stop"})", "evil.example.org").find("403") !=
             std::string::npos);
  BOOST_TEST(order(std::string(60'000, 'x')).find("403") != std::string::npos);
  BOOST_TEST(stops == 0);
  BOOST_TEST(order(R"({"token":"secret","request":"stop"})").find("200 OK") != std::string::npos);
  BOOST_TEST(stops == 1);
}

BOOST_AUTO_TEST_CASE(other_paths_and_other_hosts_get_nothing) {
  Hub hub;
  const WebPage page(hub, kAnywhere, kRun);
  BOOST_TEST(http_get(page.url() + "../manifest.toml").find("200 OK") == std::string::npos);
  BOOST_TEST(http_get(page.url() + "control.json").find("404") != std::string::npos);
  const std::string strange = http_get(page.url(), "evil.example.org");
  BOOST_TEST(strange.find("403") != std::string::npos);
  BOOST_TEST(strange.find("<html") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_page_at_all_addresses_answers_to_the_names_of_the_machine) {
  Hub hub;
  const auto everywhere = launch::parse_http_address("0.0.0.0:0");
  const auto code = [](const WebPage& page, const std::string& host) {
    return http_get(page.url(), host).substr(9, 3);
  };
  const WebPage page(hub, everywhere, kRun);
  for (const std::string& name : launch::own_host_names()) {
    const bool v6 = name.find(':') != std::string::npos;
    const std::string host = v6 ? "[" + name + "]" : name;
    BOOST_TEST(code(page, host) == "200", name);
    BOOST_TEST(code(page, host + ":8080") == "200", name);
    BOOST_TEST(code(page, name + ".evil.example.org") == "403", name);
  }
  for (const char* own : {"LocalHost:1", "localhost.", "127.0.0.1", "0.0.0.0:80"})
    BOOST_TEST(code(page, own) == "200", own);
  for (const char* strange : {"evil.example.org", "192.0.2.1:80", "[2001:db8::1]:80", "[", ":80"})
    BOOST_TEST(code(page, strange) == "403", strange);

  const WebPage named(hub, everywhere, kRun, {"train.example.org", "2001:db8::1"});
  for (const char* own :
       {"train.example.org", "TRAIN.example.org:80", "[2001:db8::1]", "localhost", "127.0.0.1:80"})
    BOOST_TEST(code(named, own) == "200", own);
  BOOST_TEST(code(named, "evil.example.org") == "403");
  BOOST_TEST(named.url().find("http://train.example.org:") == 0u, named.url());
}

BOOST_AUTO_TEST_CASE(a_taken_port_is_named) {
  Hub hub;
  const WebPage first(hub, kAnywhere, kRun);
  const std::string url = first.url();
  const auto address =
      launch::parse_http_address(url.substr(7, url.rfind('/') - 7));  // 127.0.0.1:PORT
  expect_error(ErrorKind::manifest, {"monitor.web", address.text(), "port 0"},
               [&] { WebPage(hub, address, kRun); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
