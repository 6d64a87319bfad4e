#include "launch/hosts/preflight.h"

#include <boost/test/unit_test.hpp>

// Tests what of a run's hosts is refused, what is warned of, and what is told.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(preflight_test)

namespace {

using namespace launch;
using actors::LinkProbe;

LinkProbe way(const std::string& to, const std::string& fault = "", bool connected = true) {
  return {.host = to,
          .to = "10.0.0.9:29600",
          .connected = connected,
          .fault = fault,
          .round_trip_s = 1e-4,
          .bytes_per_s = 1e9};
}

/// Hosts h0, h1 and h2 with two ranks each, on which nothing is wrong.
HostsFound good() {
  HostsFound found{.traits = {{"UCX", "1.13.1"}, {"program", "0.1 (ab)"}}, .ports = "29600-29610"};
  for (const char* name : {"h0", "h1", "h2"}) {
    HostsFound::One one{
        .host = {.name = name, .slots = 2, .cores = 4, .memory_bytes = std::int64_t{8} << 30},
        .ranks = 2,
        .survey = {.host = name,
                   .address = "10.0.0.9",
                   .facts = {.interface = "eth0",
                             .free_ports = 11,
                             .shm_bytes = 64 << 20,
                             .locked_bytes = -1,
                             .flops = 2e10}}};
    for (const char* other : {"h0", "h1", "h2"})
      if (other != one.host.name) one.survey.links.push_back(way(other));
    found.hosts.push_back(one);
  }
  for (const char* other : {"h1", "h2"}) found.from_launcher[other] = way(other);
  return found;
}

/// The only text, which has all of these words.
void expect_one(const std::vector<std::string>& texts, const std::vector<std::string>& words) {
  BOOST_TEST_REQUIRE(texts.size() == 1u);
  for (const std::string& word : words)
    BOOST_TEST(texts[0].find(word) != std::string::npos, word << " in " << texts[0]);
}

}  // namespace

BOOST_AUTO_TEST_CASE(hosts_with_which_nothing_is_wrong_are_told_of) {
  const HostsFound found = good();
  const Preflight judged = judge(found);
  BOOST_TEST(judged.refusals.empty());
  BOOST_TEST(judged.warnings.empty());
  const std::string text = to_text(found);
  for (const char* words :
       {"host      h1, eth0 10.0.0.9, 2 slots, 4 cores, 8.0 GiB, /dev/shm 64.0 MiB, memlock "
        "unlimited, 20.0 GFLOP/s a core, 0.1 ms away, 1 GB/s, clock equal within",
        "ways      6 between hosts", "equal     UCX 1.13.1, program 0.1 (ab)\n"})
    BOOST_TEST(text.find(words) != std::string::npos, words << " in " << text);
  const auto json = to_json(found, judged);
  BOOST_TEST(json.at("hosts").size() == 3u);
  BOOST_TEST(json.at("hosts")[1].at("interface") == "eth0");
  BOOST_TEST(json.at("links").size() == 6u);
  BOOST_TEST(json.at("refusals").empty());
}

BOOST_AUTO_TEST_CASE(two_hosts_that_do_not_reach_each_other_are_one_refusal) {
  HostsFound found = good();
  found.hosts[1].survey.links[1] = way("h2", "no answer within 10 s", false);
  found.hosts[2].survey.links[1] = way("h1", "no answer within 10 s", false);
  expect_one(judge(found).refusals,
             {"h1 and h2 do not reach each other", "from h1 to 10.0.0.9:29600: no answer",
              "from h2 to", "29600-29610", "cluster.interface"});
  found.ports.clear();
  expect_one(judge(found).refusals, {"firewall", "cluster.ports"});
  found = good();
  found.hosts[0].survey.links[0] = way("h1", "connected, but nothing moves for 10 s");
  expect_one(judge(found).refusals, {"h0 and h1", "MTU"});
}

BOOST_AUTO_TEST_CASE(a_host_without_room_for_its_ranks_is_refused_with_the_numbers) {
  HostsFound found = good();
  found.hosts[1].survey.facts.free_ports = 1;
  expect_one(judge(found).refusals, {"host h1", "1 of the TCP ports 29600-29610", "2 ranks"});
  found.hosts[1].survey.facts.free_ports = 3;
  expect_one(judge(found).warnings, {"host h1", "two each while they recover"});
  found = good();
  found.hosts[2].survey.facts.shm_bytes = 1 << 20;
  BOOST_TEST(judge(found).refusals.empty());  // which nothing is put into
  found.hosts[2].survey.facts.needs_shm = true;
  expect_one(judge(found).refusals, {"host h2", "/dev/shm has 1.0 MiB", "60.0 MiB", "UCX_TLS"});
  found = good();
  found.hosts[0].survey.fault = "its agent has not answered for 60 s";
  expect_one(judge(found).refusals, {"host h0", "its agent has not answered"});
}

BOOST_AUTO_TEST_CASE(a_slow_host_and_a_wrong_clock_are_named) {
  HostsFound found = good();
  found.hosts[2].survey.facts.flops = 1.5e10;
  expect_one(judge(found).warnings, {"host h2", "0.75 of the hosts' median"});
  found.hosts[2].survey.facts.flops = 1.7e10;
  found.from_launcher["h1"].clock_ahead_s = -75;
  expect_one(judge(found).warnings, {"host h1", "0:01:15 behind the launcher's"});
  BOOST_TEST(to_text(found).find("clock 0:01:15 behind") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
