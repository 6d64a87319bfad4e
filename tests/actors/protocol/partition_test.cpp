#include "actors/protocol/hosts/partition.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <random>
#include <set>
#include <vector>

#include "actors/protocol/hosts/way_watch.h"
#include "tests/support/seed.h"

// Tests which host a run goes on without when two do not reach each other, and when that is
// decided.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(partition_test)

namespace {

const std::map<std::string, int> kEqual{{"h0", 1}, {"h1", 1}, {"h2", 1}, {"h3", 1}};

BrokenWay broken(const std::string& from, const std::string& to) {
  return {.from = from, .to = to, .how = to + ":29600: no answer within 2.5 s"};
}

std::string given_up(const std::vector<BrokenWay>& ways, const std::map<std::string, int>& ranks,
                     const std::string& launchers = "h0") {
  const auto verdict = judge_partition(ways, ranks, launchers);
  return verdict ? verdict->host : "";
}

constexpr double kTick = 0.25;

/// A run whose time a test lets pass.
struct Watched {
  WayWatch watch;
  std::set<WayWatch::Pair> waits;

  /// Lets time pass until ways are to be tried; the seconds that passed.
  double until_tried(double limit_s = 1000) {
    for (double passed = kTick; passed <= limit_s; passed += kTick)
      if (!watch.pass(kTick, [this] { return waits; }).empty()) return passed;
    return -1;
  }
  std::string tried(const std::vector<BrokenWay>& ways) {
    const auto verdict = watch.tried(ways, kEqual, "h0");
    return verdict ? verdict->host : "";
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_host_with_most_others_out_of_reach_goes) {
  BOOST_TEST(given_up({broken("h1", "h2"), broken("h1", "h3")}, kEqual) == "h1");
  BOOST_TEST(given_up({broken("h2", "h1"), broken("h3", "h1")}, kEqual) == "h1");
  // Both ends tell of one way, which is one.
  BOOST_TEST(given_up({broken("h1", "h2"), broken("h2", "h1"), broken("h3", "h1")}, kEqual) ==
             "h1");
  BOOST_TEST(given_up({broken("h0", "h1"), broken("h0", "h2")}, kEqual) == "h0");
}

BOOST_AUTO_TEST_CASE(of_two_the_one_with_fewer_ranks_goes_and_the_launchers_last) {
  BOOST_TEST(given_up({broken("h1", "h2")}, {{"h1", 1}, {"h2", 2}}) == "h1");
  BOOST_TEST(given_up({broken("h1", "h2")}, {{"h1", 2}, {"h2", 1}}) == "h2");
  BOOST_TEST(given_up({broken("h1", "h2")}, kEqual) == "h2");
  BOOST_TEST(given_up({broken("h1", "h2")}, kEqual, "h2") == "h1");
  BOOST_TEST(given_up({broken("h0", "h1")}, {{"h0", 1}, {"h1", 2}}) == "h0");
}

BOOST_AUTO_TEST_CASE(ways_of_hosts_without_ranks_cost_nobody) {
  BOOST_TEST(given_up({}, kEqual) == "");
  BOOST_TEST(given_up({broken("h1", "h9"), broken("h9", "h2")}, kEqual) == "");
  BOOST_TEST(given_up({broken("h1", "h2")}, {{"h1", 0}, {"h2", 3}}) == "");
  BOOST_TEST(given_up({broken("h1", "h1")}, kEqual) == "");
}

BOOST_AUTO_TEST_CASE(the_cause_names_both_hosts_and_the_address) {
  const auto one = judge_partition(std::vector{broken("h1", "h2")}, kEqual, "h0");
  BOOST_TEST_REQUIRE(one.has_value());
  BOOST_TEST(one->cause ==
             "it and h1 do not reach each other, though both reach the launcher; from h1 to "
             "h2:29600: no answer within 2.5 s");
  const auto many =
      judge_partition(std::vector{broken("h1", "h2"), broken("h1", "h3")}, kEqual, "h0");
  BOOST_TEST(many->cause.find("h2, and 1 more, do not") != std::string::npos, many->cause);
}

/// Whatever is broken, hosts are given up until those which are left reach each other, and one
/// that reaches everybody never is.
BOOST_AUTO_TEST_CASE(giving_up_hosts_one_by_one_leaves_a_whole_network) {
  std::mt19937_64 random(test::fresh_seed());
  for (int round = 0; round < 2000; ++round) {
    std::map<std::string, int> ranks;
    const int count = 2 + static_cast<int>(random() % 8);
    const auto name = [](std::uint64_t host) { return "h" + std::to_string(host); };
    for (int host = 0; host < count; ++host) ranks[name(host)] = 1 + static_cast<int>(random() % 3);
    std::vector<BrokenWay> ways;
    std::set<std::string> ends;
    for (std::uint64_t i = random() % 12; i > 0; --i) {
      ways.push_back(broken(name(random() % count), name(random() % count)));
      if (ways.back().from == ways.back().to) ways.pop_back();
    }
    for (const BrokenWay& way : ways) ends.insert({way.from, way.to});
    while (const auto verdict = judge_partition(ways, ranks, "h0")) {
      BOOST_TEST_REQUIRE(ends.contains(verdict->host));
      BOOST_TEST_REQUIRE(ranks.erase(verdict->host) == 1u);
      std::ranges::shuffle(ways, random);
    }
    for (const BrokenWay& way : ways)
      BOOST_TEST_REQUIRE(!(ranks.contains(way.from) && ranks.contains(way.to)));
    BOOST_TEST_REQUIRE(!ranks.empty());
  }
}

BOOST_AUTO_TEST_CASE(a_way_that_is_broken_twice_is_decided_on_within_seconds) {
  Watched run{.waits = {{"h1", "h2"}}};
  const double first = run.until_tried();
  BOOST_TEST(run.until_tried(100) == -1);  // the answer is owed
  BOOST_TEST(run.tried({broken("h1", "h2")}) == "");
  run.waits.clear();  // whoever waited for it may have told of something else since
  const double second = run.until_tried();
  BOOST_TEST(run.tried({broken("h2", "h1")}) == "h2");
  constexpr double kPatience = 2.5;
  BOOST_TEST(first + second + 2 * kPatience < 10);
}

BOOST_AUTO_TEST_CASE(slow_steps_cost_no_host) {
  Watched run{.waits = {{"h0", "h1"}, {"h1", "h2"}}};
  for (int minute = 0; minute < 60; ++minute) {
    BOOST_TEST_REQUIRE(run.until_tried() > 0);
    BOOST_TEST_REQUIRE(run.tried({}) == "");
  }
  // One packet that was lost at the wrong time.
  run.until_tried();
  BOOST_TEST(run.tried({broken("h1", "h2")}) == "");
  run.until_tried();
  BOOST_TEST(run.tried({broken("h0", "h1")}) == "");
  run.until_tried();
  BOOST_TEST(run.tried({}) == "");
}

BOOST_AUTO_TEST_CASE(a_run_that_moves_or_waits_for_nobody_elsewhere_tries_nothing) {
  Watched run{.waits = {{"h1", "h2"}}};
  for (int step = 0; step < 100; ++step) {
    BOOST_TEST_REQUIRE(run.until_tried(2) == -1);
    run.watch.progressed();
  }
  run.until_tried();
  run.watch.progressed();  // while ways are tried
  BOOST_TEST(run.tried({broken("h1", "h2")}) == "");
  run.until_tried();
  BOOST_TEST(run.tried({broken("h1", "h2")}) == "");
  run.watch.progressed();
  run.until_tried();
  BOOST_TEST(run.tried({broken("h1", "h2")}) == "");  // the first time that it stands since
  run.waits.clear();
  run.watch.progressed();
  BOOST_TEST(run.until_tried(100) == -1);
}

BOOST_AUTO_TEST_CASE(of_many_pairs_all_have_their_turn) {
  Watched run;
  for (int host = 0; host < 1000; ++host)
    run.waits.insert(std::minmax("a" + std::to_string(host), "b" + std::to_string(host)));
  std::set<WayWatch::Pair> seen;
  for (int turn = 0; turn < 8;) {
    const auto now = run.watch.pass(kTick, [&] { return run.waits; });
    if (now.empty()) continue;
    BOOST_TEST(now.size() <= 128u);
    seen.insert(now.begin(), now.end());
    run.tried({});
    ++turn;
  }
  BOOST_TEST(seen.size() == 1000u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
