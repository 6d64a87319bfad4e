#include "actors/hosts/survey.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <set>

#include "actors/hosts/survey_desk.h"

// Tests surveys with hosts that answer, do not, or are lost.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(survey_test)

namespace {

using namespace actors;

/// Hosts that note their orders.
struct Hosts {
  std::set<std::string> gone;
  std::map<std::string, std::vector<std::string>> orders;
  std::map<std::string, std::vector<ProbeTarget>> targets;
  std::uint64_t survey = 0;

  Survey::Send sender() {
    return [this](const std::string& host, const Survey::Order& order) {
      if (gone.contains(host)) return false;
      constexpr std::array kNames{"begin", "probe", "end"};
      orders[host].push_back(kNames.at(order.index()));
      std::visit([this](const auto& x) { survey = x.survey; }, order);
      if (const auto* probe = std::get_if<ProbeLinks>(&order)) targets[host] = probe->targets;
      return true;
    };
  }
  HostSurveyed opened(int port) const { return {.survey = survey, .port = port}; }
  LinksProbed probed(const std::string& to, const std::string& fault = "") const {
    return {.survey = survey, .links = {{.host = to, .fault = fault}}};
  }
};

SurveyPlan plan_of(int count) {
  SurveyPlan plan{.limit_s = 60};
  for (int host = 0; host < count; ++host)
    plan.hosts.push_back({.host = "h" + std::to_string(host), .address = "10.0.0.1"});
  try_each_other(plan, 1);
  return plan;
}

}  // namespace

BOOST_AUTO_TEST_CASE(hosts_try_each_other_when_all_have_a_port) {
  Hosts hosts;
  Survey survey(7, plan_of(2), "secret", hosts.sender());
  survey.take("h0", hosts.opened(11));
  BOOST_TEST(hosts.orders["h0"] == std::vector<std::string>{"begin"});
  survey.take("h1", hosts.opened(12));
  BOOST_TEST_REQUIRE(hosts.targets["h0"].size() == 1u);
  BOOST_TEST((hosts.targets["h0"][0].host == "h1" && hosts.targets["h0"][0].port == 12));
  survey.take("h0", hosts.probed("h1", "no answer"));
  BOOST_TEST(!survey.over());
  survey.take("h1", hosts.probed("h0"));
  BOOST_TEST_REQUIRE(survey.over());
  BOOST_TEST(hosts.orders["h1"] == (std::vector<std::string>{"begin", "probe", "end"}));
  BOOST_TEST(survey.result().hosts[0].links.at(0).fault == "no answer");
  BOOST_TEST(survey.result().hosts[1].links.at(0).fault == "");
}

BOOST_AUTO_TEST_CASE(a_host_without_a_port_says_why_and_nobody_tries_it) {
  Hosts hosts;
  Survey survey(7, plan_of(3), "secret", hosts.sender());
  for (const char* host : {"h0", "h1"}) survey.take(host, hosts.opened(11));
  survey.take("h2", HostSurveyed{.survey = 7, .fault = "none is free"});
  BOOST_TEST(hosts.targets["h0"].size() == 1u);
  BOOST_TEST(!hosts.targets.contains("h2"));
  survey.take("h0", hosts.probed("h1"));
  survey.take("h1", hosts.probed("h0"));
  BOOST_TEST_REQUIRE(survey.over());
  BOOST_TEST(survey.result().hosts[2].fault == "none is free");
}

BOOST_AUTO_TEST_CASE(nobody_waits_for_a_lost_host_and_for_ever_for_none) {
  Hosts hosts;
  hosts.gone.insert("h3");
  Survey survey(7, plan_of(4), "secret", hosts.sender());
  for (const char* host : {"h0", "h1", "h2"}) survey.take(host, hosts.opened(11));
  survey.lose("h1");
  survey.take("h0", hosts.probed("h2"));
  survey.pass(59);
  BOOST_TEST(!survey.over());
  survey.pass(1);
  BOOST_TEST_REQUIRE(survey.over());
  BOOST_TEST(survey.result().hosts[0].fault == "");
  BOOST_TEST(survey.result().hosts[1].fault == "it was lost");
  BOOST_TEST(survey.result().hosts[2].fault == "its agent has not answered for 60 s");
  BOOST_TEST(survey.result().hosts[3].fault == "it was lost");
}

BOOST_AUTO_TEST_CASE(answers_of_another_survey_or_of_strangers_are_ignored) {
  Hosts hosts;
  Survey survey(7, plan_of(2), "secret", hosts.sender());
  survey.take("h0", HostSurveyed{.survey = 6, .port = 1});
  survey.take("h9", HostSurveyed{.survey = 7, .port = 1});
  survey.take("h0", LinksProbed{.survey = 7});
  survey.take("h1", hosts.opened(11));
  BOOST_TEST(hosts.targets.empty());
}

BOOST_AUTO_TEST_CASE(each_host_tries_some_of_many_and_is_tried_by_some) {
  for (const int count : {1, 2, 64, 65, 1000}) {
    const SurveyPlan plan = plan_of(count);
    std::vector<int> tried(static_cast<std::size_t>(count));
    for (int host = 0; host < count; ++host) {
      const auto& tries = plan.hosts[static_cast<std::size_t>(host)].tries;
      BOOST_TEST(std::ssize(tries) == (count <= 64 ? count - 1 : 32));
      BOOST_TEST((std::set<int>(tries.begin(), tries.end()).size() == tries.size()));
      BOOST_TEST((std::ranges::find(tries, host) == tries.end()));
      for (const int other : tries) ++tried.at(static_cast<std::size_t>(other));
    }
    if (count > 1) BOOST_TEST(std::ranges::min(tried) > 0);
  }
}

BOOST_AUTO_TEST_CASE(hosts_are_parted_if_neither_reaches_the_other) {
  const auto link = [](const std::string& to, bool connected) {
    return LinkProbe{.host = to, .to = to + ":1", .connected = connected, .fault = "silence"};
  };
  SurveyResult result{.hosts = {{.host = "h0"}, {.host = "h1"}, {.host = "h2"}}};
  result.hosts[0].links = {link("h1", false), link("h2", false)};
  result.hosts[1].links = {link("h0", true), link("h2", false)};
  const auto pairs = [](const std::vector<BrokenWay>& ways) {
    std::string text;
    for (const BrokenWay& way : ways) text += way.from + way.to + " ";
    return text;
  };
  BOOST_TEST(pairs(result.broken_ways()) == "h0h1 h0h2 h1h2 ");
  BOOST_TEST(pairs(result.parted_ways()) == "h0h2 h1h2 ");  // h2 has tried nobody
  BOOST_TEST(result.parted_ways()[0].how == "h2:1: silence");
}

BOOST_AUTO_TEST_CASE(one_survey_follows_another) {
  Hosts hosts;
  SurveyDesk desk(hosts.sender());
  std::string told;
  desk.ask({.plan = plan_of(1), .done = [&](const SurveyResult& result) {
              told += result.hosts[0].host + " ";
              desk.ask({.plan = plan_of(0), .done = [&](const SurveyResult&) { told += "none "; }});
            }});
  desk.ask({.plan = plan_of(2),
            .done = [&](const SurveyResult& result) { told += result.hosts[1].fault; }});
  const std::uint64_t first = hosts.survey;
  desk.take("h0", hosts.opened(11));
  BOOST_TEST(hosts.survey != first);
  desk.lose("h1");
  desk.take("h0", hosts.opened(11));
  BOOST_TEST(told == "h0 it was lostnone ");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
