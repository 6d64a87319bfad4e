#include "launch/monitors/prometheus.h"

#include <boost/test/unit_test.hpp>

#include "launch/manifest/checks/http_address.h"
#include "tests/launch/step_event.h"
#include "tests/support/expect_error.h"
#include "tests/support/http_get.h"

// Addresses of monitors, and the scrape endpoint over real connections.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(prometheus_test)

using namespace actors;
using launch::PrometheusEndpoint;

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

BOOST_AUTO_TEST_CASE(prometheus_scrapes_what_was_published) {
  Hub hub;
  const PrometheusEndpoint endpoint(hub, launch::parse_http_address("127.0.0.1:0"),
                                    {.flop_per_token = 6, .flop_per_s = 10000});
  hub.publish({.body = MembershipChanged{.ranks = std::vector<RankStatus>(2)}});
  hub.publish(step_event(1, 3.5));
  hub.publish(step_event(2, 2.25));
  hub.publish({.rank = 1,
               .body = RankActivity{.resident_bytes = 4096,
                                    .allocated = {.stage = {.weights = 2048}, .pools = 512},
                                    .mailbox_depth = 3,
                                    .links = {{.to = 0, .queued = 2}}}});
  hub.publish({.body = DirectorActivity{.mailbox_depth = 5, .handler_s = {5e-6, 2e-3}}});
  hub.publish({.body = Recovered{.stall_s = 0.5}});
  hub.publish({.step = 2, .body = StepAgain{.report = {.step = 2, .loss = 9, .tokens = 100}}});
  hub.publish({.body = EvaluationDone{.loss = 4.5, .sets = {{"a", 4.5}, {"b", 1.5}}}});
  const std::string text = get_until(endpoint.url(), "troupe_eval_loss 4.5");
  for (const char* line :
       {"troupe_train_loss 2.25\n",
        "troupe_train_tokens_total 200\n",
        "troupe_train_steps_total 2\n",
        "troupe_train_source_loss{source=\"books\"} 3.25\n",
        "troupe_eval_set_loss{set=\"b\"} 1.5\n",
        "troupe_train_source_tokens_total{source=\"code\"} 80\n",
        "troupe_train_step_duration_seconds_bucket{le=\"0.05\"} 2\n",
        "troupe_train_step_duration_seconds_bucket{le=\"0.02\"} 0\n",
        "troupe_train_step_duration_seconds_count 2\n",
        "troupe_pipeline_stage_busy_seconds_total{phase=\"compute\",replica=\"0\",shard=\"0\","
        "stage=\"1\"} 4\n",
        "troupe_pipeline_stage_idle_seconds_total{cause=\"message\",replica=\"0\",shard=\"0\","
        "stage=\"1\"} 1.5\n",
        "troupe_pipeline_stage_idle_seconds_total{cause=\"collective\",replica=\"0\",shard=\"0\","
        "stage=\"1\"} 0.5\n",
        "troupe_train_steps_again_total 1\n",
        "troupe_link_bytes_total{dst=\"1\",kind=\"tensor\",src=\"0\"} 128\n",
        "troupe_process_resident_memory_bytes{rank=\"1\"} 4096\n",
        "troupe_rank_allocated_memory_bytes{purpose=\"weights\",rank=\"1\"} 2048\n",
        "troupe_rank_allocated_memory_bytes{purpose=\"pools\",rank=\"1\"} 512\n",
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
  const auto members = [](std::uint32_t configuration, int pp) {
    return RunEvent{
        .configuration = configuration,
        .step = 1,
        .body = MembershipChanged{.pipeline = {.pp = pp},
                                  .schedule = "1f1b",
                                  .ranks = std::vector<RankStatus>(static_cast<std::size_t>(pp))}};
  };
  const auto sign_of_life = [](std::uint32_t configuration, int rank, int to) {
    return RunEvent{.configuration = configuration,
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
  hub.publish(sign_of_life(2, 1, 0));  // late, from an actor of the old configuration
  hub.publish(sign_of_life(3, 0, 0));
  hub.publish({.body = EvaluationDone{.loss = 5.5}});
  const std::string text = get_until(endpoint.url(), "troupe_eval_loss 5.5");
  for (const char* gone : {"rank=\"1\"", "src=\"1\"", "dst=\"1\"", "stage=\"1\""})
    BOOST_TEST(text.find(gone) == std::string::npos, gone << " is in\n" << text);
  BOOST_TEST(text.find("troupe_process_resident_memory_bytes{rank=\"0\"} 7\n") !=
             std::string::npos);
  BOOST_TEST(text.find("troupe_run_ranks 1\n") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(series_of_ranks_on_several_hosts_name_their_host) {
  Hub hub;
  const PrometheusEndpoint endpoint(hub, launch::parse_http_address("127.0.0.1:0"), {});
  const auto members = [](const std::string& second) {
    return RunEvent{.step = 1,
                    .body = MembershipChanged{.pipeline = {.pp = 2},
                                              .ranks = {{.rank = 0, .host = "h0"},
                                                        {.rank = 1, .stage = 1, .host = second}}}};
  };
  const auto publish_step = [&](double loss) {
    RunEvent event = step_event(1, loss);
    auto& report = std::get<StepCommitted>(event.body).report;
    StepReport::Measured measured = *report.replicas.at(0);
    measured.stages.at(0).host_bytes = 5;
    measured.stages.at(0).network_bytes = 7;
    report.replicas = {std::make_shared<StepReport::Measured>(measured)};
    hub.publish({.rank = 1, .body = RankActivity{.resident_bytes = 7, .mailbox_depth = 3}});
    hub.publish(event);
  };
  for (const char* host : {"h0", "h1"})
    hub.publish({.body = HostChanged{.host = host, .state = "joined"}});
  hub.publish(members("h1"));
  publish_step(3.5);
  const auto has = [](const std::string& text, const std::string& line) {
    BOOST_TEST(text.find(line + "\n") != std::string::npos, line << " is not in\n" << text);
  };
  std::string text = get_until(endpoint.url(), "troupe_train_loss 3.5");
  for (const char* line :
       {"troupe_process_resident_memory_bytes{host=\"h1\",rank=\"1\"} 7",
        "troupe_actor_mailbox_depth{actor=\"stage\",host=\"h1\",rank=\"1\"} 3",
        "troupe_pipeline_stage_busy_seconds_total{host=\"h1\",phase=\"compute\",replica=\"0\","
        "shard=\"0\",stage=\"1\"} 2",
        "troupe_host_ranks{host=\"h0\"} 1", "troupe_host_ranks{host=\"h1\"} 1",
        "troupe_host_losses_total{host=\"h0\"} 0",
        "troupe_host_sent_bytes_total{host=\"h1\",link=\"shm\"} 5",
        "troupe_host_sent_bytes_total{host=\"h1\",link=\"tcp\"} 7"})
    has(text, line);
  // A spare host takes the rank of one that is lost.
  hub.publish({.body = HostChanged{.host = "h2", .state = "spare"}});
  hub.publish({.body = HostChanged{.host = "h1", .state = "lost", .cause = "silence"}});
  hub.publish(members("h2"));
  publish_step(2.5);
  text = get_until(endpoint.url(), "troupe_train_loss 2.5");
  for (const char* line :
       {"troupe_process_resident_memory_bytes{host=\"h2\",rank=\"1\"} 7",
        "troupe_host_ranks{host=\"h1\"} 0", "troupe_host_ranks{host=\"h2\"} 1",
        "troupe_host_losses_total{host=\"h1\"} 1", "troupe_host_losses_total{host=\"h2\"} 0"})
    has(text, line);
  BOOST_TEST(text.find("{host=\"h1\",rank=") == std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(names_of_hosts_are_checked_with_an_example) {
  for (const char* good : {"node7", "a.example.org", "10.0.0.7", "::1", "[::1]"})
    BOOST_TEST(launch::check_host_name(good) == "", good);
  for (const char* bad : {"", "*", "http://node7", "node7:80", "a b", "[node7]"})
    BOOST_TEST(launch::check_host_name(bad).find("node7.example.org") != std::string::npos, bad);
}

BOOST_AUTO_TEST_CASE(a_taken_port_is_named) {
  Hub hub;
  const PrometheusEndpoint first(hub, launch::parse_http_address("127.0.0.1:0"), {});
  std::string taken = first.url().substr(std::string("http://").size());
  taken.resize(taken.find('/'));
  const auto address = launch::parse_http_address(taken);
  expect_error(ErrorKind::manifest, {"monitor.prometheus", taken, "port 0"},
               [&] { PrometheusEndpoint(hub, address); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
