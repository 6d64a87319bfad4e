#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "launch/manifest/host_names.h"
#include "launch/manifest/http_address.h"
#include "launch/monitors/prometheus.h"
#include "launch/web/web_page.h"
#include "launch/web/web_state.h"
#include "schedules/draw.h"
#include "tests/support/expect_error.h"
#include "tests/support/http_get.h"

// The page and the scrape endpoint over real connections. Monitors have threads of their own, so
// that tests ask for published values until they are there.

namespace troupe::test {
namespace {

using namespace actors;
using launch::PrometheusEndpoint;
using launch::WebPage;
using nlohmann::json;

RunEvent step_event(std::int64_t step, double loss) {
  const StepReport::Measured measured{.stages = {{.stage = 1, .busy_s = 2, .idle_s = 1}},
                                      .edges = {{.from = 0, .to = 1, .bytes = 64}}};
  return {.step = step,
          .body = StepCommitted{
              .report = {.step = step,
                         .loss = loss,
                         .tokens = 100,
                         .sources = {{.name = "books", .loss = loss + 1, .tokens = 60},
                                     {.name = "code", .loss = loss, .tokens = 40}},
                         .step_s = 0.03,
                         .replicas = {std::make_shared<StepReport::Measured>(measured)}}}};
}

/// An answer from after the moment at which one held `needle`. That one may be older in its other
/// parts, because a scrape reads one metric after the other.
std::string get_until(const std::string& url, const std::string& needle) {
  while (http_get(url).find(needle) == std::string::npos) {
  }
  return http_get(url);
}

json body_of(const std::string& answer) {
  return json::parse(answer.substr(answer.find("\r\n\r\n") + 4));
}

}  // namespace

BOOST_AUTO_TEST_CASE(addresses_are_checked_with_an_example) {
  for (const char* good : {"127.0.0.1:0", "localhost:9090", "0.0.0.0:65535"})
    BOOST_TEST(launch::check_http_address(good) == "", good);
  for (const char* bad : {"", "127.0.0.1", ":80", "127.0.0.1:", "127.0.0.1:65536", "host:1x",
                          "example.org:80", "::1:80", "127.0.0.1:-1"})
    BOOST_TEST(launch::check_http_address(bad).find("127.0.0.1:9090") != std::string::npos, bad);
  BOOST_TEST(launch::parse_http_address("localhost:7").text() == "127.0.0.1:7");
  for (const char* six : {"[::1]:80", "[::]:0", "[2001:db8::1]:0"})
    BOOST_TEST(launch::check_http_address(six).find("IPv4 alone") != std::string::npos, six);
}

BOOST_AUTO_TEST_CASE(addresses_that_are_not_free_are_told_beforehand) {
  const auto at = [](const std::string& key, const std::string& text) {
    return launch::KeyedAddress{.key = key, .address = launch::parse_http_address(text)};
  };
  launch::check_can_bind({at("monitor.web", "127.0.0.1:0"), at("other", "localhost:0")});
  Hub hub;
  const PrometheusEndpoint endpoint(hub, launch::parse_http_address("127.0.0.1:0"), {});
  std::string taken = endpoint.url().substr(std::string("http://").size());
  taken.resize(taken.find('/'));
  expect_error(ErrorKind::manifest, {"monitor.web", taken, "Address already in use"},
               [&] { launch::check_can_bind({at("monitor.web", taken)}); });
  expect_error(ErrorKind::manifest, {"monitor.web", "192.0.2.1:0", "Cannot assign"},
               [&] { launch::check_can_bind({at("monitor.web", "192.0.2.1:0")}); });
}

BOOST_AUTO_TEST_CASE(the_page_tells_of_gpus_where_there_are_some) {
  RunEvent event = step_event(1, 3.5);
  StepReport& report = std::get<StepCommitted>(event.body).report;
  report.replicas = {std::make_shared<StepReport::Measured>(StepReport::Measured{
      .stages = {{.device_used_bytes = 5, .device_total_bytes = 8}}, .edges = {}})};
  const auto shown = [&](const launch::PeakRate& peak) {
    launch::WebState state("run", peak);
    state.apply(event);
    return state.snapshot().at("step");
  };
  const auto known = shown({.flop_per_token = 6, .flop_per_s = 40000});
  BOOST_TEST(known.at("mfu").get<double>() == 0.5, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(known.at("stages").at(0).at("device_used_bytes") == 5);
  BOOST_TEST(known.at("stages").at(0).at("device_total_bytes") == 8);
  BOOST_TEST(!shown({}).contains("mfu"));
}

BOOST_AUTO_TEST_CASE(prometheus_scrapes_what_was_published) {
  Hub hub;
  const PrometheusEndpoint endpoint(hub, launch::parse_http_address("127.0.0.1:0"),
                                    {.flop_per_token = 6, .flop_per_s = 10000});
  hub.publish({.body = MembershipChanged{.ranks = std::vector<RankStatus>(2)}});
  hub.publish(step_event(1, 3.5));
  hub.publish(step_event(2, 2.25));
  hub.publish({.rank = 1,
               .body = RankActivity{
                   .resident_bytes = 4096, .mailbox_depth = 3, .links = {{.to = 0, .queued = 2}}}});
  hub.publish({.body = DirectorActivity{.mailbox_depth = 5, .handler_s = {5e-6, 2e-3}}});
  hub.publish({.body = Recovered{.stall_s = 0.5}});
  hub.publish({.body = EvaluationDone{.loss = 4.5}});
  const std::string text = get_until(endpoint.url(), "troupe_eval_loss 4.5");
  for (const char* line :
       {"troupe_train_loss 2.25\n",
        "troupe_train_tokens_total 200\n",
        "troupe_train_steps_total 2\n",
        "troupe_train_source_loss{source=\"books\"} 3.25\n",
        "troupe_train_source_tokens_total{source=\"code\"} 80\n",
        "troupe_train_step_duration_seconds_bucket{le=\"0.05\"} 2\n",
        "troupe_train_step_duration_seconds_bucket{le=\"0.02\"} 0\n",
        "troupe_train_step_duration_seconds_count 2\n",
        "troupe_pipeline_stage_busy_seconds_total{phase=\"compute\",replica=\"0\",shard=\"0\","
        "stage=\"1\"} 4\n",
        "troupe_pipeline_stage_idle_seconds_total{cause=\"message\",replica=\"0\",shard=\"0\","
        "stage=\"1\"} 2\n",
        "troupe_link_bytes_total{dst=\"1\",kind=\"tensor\",src=\"0\"} 128\n",
        "troupe_process_resident_memory_bytes{rank=\"1\"} 4096\n",
        "troupe_actor_mailbox_depth{actor=\"stage\",rank=\"1\"} 3\n",
        "troupe_actor_mailbox_depth{actor=\"director\"} 5\n",
        "troupe_link_queue_depth{dst=\"0\",src=\"1\"} 2\n",
        "troupe_actor_handler_duration_seconds_bucket{actor=\"director\",le=\"1e-05\"} 1\n",
        "troupe_actor_handler_duration_seconds_count{actor=\"director\"} 2\n",
        "troupe_train_mfu_ratio 1\n",
        "troupe_run_events_total{kind=\"recovered\"} 1\n",
        "troupe_recovery_stall_seconds_count 1\n",
        "troupe_build_info{version=\""})
    BOOST_TEST(text.find(line) != std::string::npos, line << " is not in\n" << text);
}

BOOST_AUTO_TEST_CASE(prometheus_tells_nothing_of_ranks_that_are_gone) {
  Hub hub;
  const PrometheusEndpoint endpoint(hub, launch::parse_http_address("127.0.0.1:0"), {});
  const auto members = [](std::uint32_t epoch, int pp) {
    return RunEvent{
        .epoch = epoch,
        .step = 1,
        .body = MembershipChanged{.pipeline = {.pp = pp},
                                  .schedule = "1f1b",
                                  .ranks = std::vector<RankStatus>(static_cast<std::size_t>(pp))}};
  };
  const auto sign_of_life = [](std::uint32_t epoch, int rank, int to) {
    return RunEvent{.epoch = epoch,
                    .step = 1,
                    .rank = rank,
                    .body = RankActivity{.resident_bytes = 7, .links = {{.to = to}}}};
  };
  hub.publish(members(1, 2));
  hub.publish(sign_of_life(1, 1, 0));
  hub.publish(step_event(1, 3.5));
  const char* const of_rank_1 = "troupe_process_resident_memory_bytes{rank=\"1\"} 7\n";
  get_until(endpoint.url(), "troupe_train_loss 3.5");
  hub.publish(members(2, 2));  // another process on the same rank
  hub.publish({.body = EvaluationDone{.loss = 4.5}});
  BOOST_TEST(get_until(endpoint.url(), "troupe_eval_loss 4.5").find(of_rank_1) !=
             std::string::npos);
  hub.publish(members(3, 1));
  hub.publish(sign_of_life(2, 1, 0));  // late, from an actor of the old epoch
  hub.publish(sign_of_life(3, 0, 0));
  hub.publish({.body = EvaluationDone{.loss = 5.5}});
  const std::string text = get_until(endpoint.url(), "troupe_eval_loss 5.5");
  for (const char* gone : {"rank=\"1\"", "src=\"1\"", "dst=\"1\"", "stage=\"1\""})
    BOOST_TEST(text.find(gone) == std::string::npos, gone << " is in\n" << text);
  BOOST_TEST(text.find("troupe_process_resident_memory_bytes{rank=\"0\"} 7\n") !=
             std::string::npos);
  BOOST_TEST(text.find("troupe_run_ranks 1\n") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_page_is_whole_and_its_state_follows_the_run) {
  Hub hub;
  const WebPage page(hub, launch::parse_http_address("127.0.0.1:0"), "my <run>");
  const std::string html = http_get(page.url());
  BOOST_TEST(html.find("200 OK") != std::string::npos);
  BOOST_TEST(html.find("<html") != std::string::npos);
  BOOST_TEST(html.find("</html>") != std::string::npos);
  // A kind of action has the same colour here and in the pictures of plans.
  for (const schedules::Op op :
       {schedules::Op::F, schedules::Op::B, schedules::Op::I, schedules::Op::W})
    BOOST_TEST(html.find(fmt::format("{}: \"{}\"", static_cast<char>(op),
                                     schedules::colour_of(op))) != std::string::npos);
  // No asset from elsewhere: the only address in the page is the name of SVG.
  for (std::size_t at = html.find("//"); at != std::string::npos; at = html.find("//", at + 1))
    BOOST_TEST(html.substr(at, 12) == "//www.w3.org");

  BOOST_TEST(!hub.wanted<ActionsTraced>());  // no user has looked at the timeline
  http_get(page.url() + "state");
  BOOST_TEST(hub.wanted<ActionsTraced>());
  hub.publish({.body = MembershipChanged{.pipeline = {.pp = 2},
                                         .ranks = {{.rank = 0}, {.rank = 1, .stage = 1}}}});
  get_until(page.url() + "state", "\"pp\":2");
  hub.publish(step_event(5, 1.5));
  for (int rank = 0; rank < 2; ++rank)
    hub.publish({.step = 5,
                 .rank = rank,
                 .body = ActionsTraced{.actions = {{.name = "0F0", .begin_s = 1, .end_s = 2}},
                                       .complete = true}});
  get_until(page.url() + "state", "\"loss\":1.5");
  const json state = body_of(get_until(page.url() + "state", "0F0"));
  BOOST_TEST(state.at("run") == "my <run>");
  BOOST_TEST(state.at("step").at("loss") == 1.5);
  BOOST_TEST(state.at("losses") == json::parse("[[5,1.5]]"));
  BOOST_TEST(state.at("timeline").at("step") == 5);
  BOOST_TEST(state.at("timeline").at("rows").size() == 2u);
}

BOOST_AUTO_TEST_CASE(what_comes_all_the_time_pushes_no_failure_out) {
  Hub hub;
  const WebPage page(hub, launch::parse_http_address("127.0.0.1:0"), "run");
  hub.publish({.body = FailureDetected{.cause = "rank 1 was killed"}});
  hub.publish({.body = EvaluationDone{.loss = 4.25}});
  for (std::uint64_t i = 0; i < 300; ++i)
    hub.publish({.body = DirectorActivity{.mailbox_depth = i}});
  hub.publish({.body = Note{.text = "the last one"}});
  const json events = body_of(get_until(page.url() + "state", "the last one")).at("events");
  BOOST_TEST(events.front().at("cause") == "rank 1 was killed");
  BOOST_TEST(events.at(1).at("eval_loss") == 4.25);
  BOOST_TEST(events.back().at("cause") == "the last one");
  BOOST_TEST(events.size() == 3 + launch::WebState::kMaxRecentEvents);
}

BOOST_AUTO_TEST_CASE(other_paths_and_other_hosts_get_nothing) {
  Hub hub;
  const WebPage page(hub, launch::parse_http_address("127.0.0.1:0"), "run");
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
  const WebPage page(hub, everywhere, "run");
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

  const WebPage named(hub, everywhere, "run", {"train.example.org", "2001:db8::1"});
  for (const char* own :
       {"train.example.org", "TRAIN.example.org:80", "[2001:db8::1]", "localhost", "127.0.0.1:80"})
    BOOST_TEST(code(named, own) == "200", own);
  BOOST_TEST(code(named, "evil.example.org") == "403");
  BOOST_TEST(named.url().find("http://train.example.org:") == 0u, named.url());
}

BOOST_AUTO_TEST_CASE(names_of_hosts_are_checked_with_an_example) {
  for (const char* good : {"node7", "a.example.org", "10.0.0.7", "::1", "[::1]"})
    BOOST_TEST(launch::check_host_name(good) == "", good);
  for (const char* bad : {"", "*", "http://node7", "node7:80", "a b", "[node7]"})
    BOOST_TEST(launch::check_host_name(bad).find("node7.example.org") != std::string::npos, bad);
}

BOOST_AUTO_TEST_CASE(a_taken_port_is_named) {
  Hub hub;
  const WebPage first(hub, launch::parse_http_address("127.0.0.1:0"), "run");
  const std::string url = first.url();
  const auto address =
      launch::parse_http_address(url.substr(7, url.rfind('/') - 7));  // 127.0.0.1:PORT
  expect_error(ErrorKind::manifest, {"monitor.web", address.text(), "port 0"},
               [&] { WebPage(hub, address, "run"); });
  expect_error(ErrorKind::manifest, {"monitor.prometheus", address.text(), "port 0"},
               [&] { PrometheusEndpoint(hub, address); });
}

}  // namespace troupe::test
