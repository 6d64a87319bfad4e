#include "actors/tuning/host_clocks.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>
#include <tuple>

#include "tests/support/seed.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(host_clocks_test)

namespace {

const std::map<int, RankClock> kHosts{{0, {"a"}}, {1, {"b"}}, {2, {"b"}}, {3, {"c"}}};
const auto kNear = boost::test_tools::tolerance(1e-9);

constexpr double kHop = 1, kAction = 2;

/// Microbatch 0 forth and back through four stages, on hosts whose clocks are ahead by so much. A
/// rank waits for each message as long as it travels.
TracedRanks step_with(const std::vector<double>& ahead) {
  TracedRanks ranks;
  double now = 100;
  const auto act = [&](int rank, const std::string& name, int from, int to) {
    const double clock = now + ahead[static_cast<std::size_t>(rank)];
    ranks[rank].push_back({.name = name,
                           .begin_s = clock,
                           .end_s = clock + kAction,
                           .from = from,
                           .to = to,
                           .waited_s = from < 0 ? 0 : kHop,
                           .sent_s = to < 0 ? 0 : clock + kAction});
    now += kAction + kHop;
  };
  for (int rank = 0; rank < 4; ++rank)
    act(rank, std::to_string(rank) + "F0", rank - 1, rank < 3 ? rank + 1 : -1);
  for (int rank = 3; rank >= 0; --rank)
    act(rank, std::to_string(rank) + "B0", rank < 3 ? rank + 1 : -1, rank - 1);
  return ranks;
}

}  // namespace

BOOST_AUTO_TEST_CASE(clocks_are_compared_by_messages_that_went_both_ways) {
  const TracedRanks step = step_with({0, 5000, 5000, -70});
  const auto messages = messages_between(step);
  BOOST_TEST(messages.size() == 6u);
  const auto ahead = clocks_ahead(messages, kHosts);
  BOOST_REQUIRE(ahead.size() == 4u);
  for (const auto& [rank, seconds, error_s] :
       {std::tuple{0, 0.0, 0.0}, {1, 5000.0, 1.0}, {2, 5000.0, 1.0}, {3, -70.0, 2.0}}) {
    BOOST_TEST(ahead.at(rank).seconds == seconds, kNear);
    BOOST_TEST(ahead.at(rank).error_s == error_s, kNear);
  }
}

BOOST_AUTO_TEST_CASE(a_host_that_only_receives_is_left_out) {
  auto messages = messages_between(step_with({0, 5000, 5000, -70}));
  std::erase_if(messages, [](const TracedMessage& message) { return message.from == 3; });
  const auto ahead = clocks_ahead(messages, kHosts);
  BOOST_TEST(ahead.size() == 3u);
  BOOST_TEST(!ahead.contains(3));
}

BOOST_AUTO_TEST_CASE(one_host_has_one_clock) {
  const auto messages = messages_between(step_with({0, 0, 0, 0}));
  for (const auto& [rank, clock] : clocks_ahead(messages, {{0, {"a"}}, {1, {"a"}}, {2, {"a"}}})) {
    BOOST_TEST(clock.seconds == 0);
    BOOST_TEST(clock.error_s == 0);
  }
  BOOST_TEST(clocks_ahead({}, {}).empty());
}

BOOST_AUTO_TEST_CASE(clocks_that_were_measured_need_no_messages) {
  const auto host = [](const std::string& name, double seconds, double error_s) {
    return RankClock{.host = name, .measured = ClockAhead{.seconds = seconds, .error_s = error_s}};
  };
  // The launcher is on none of them.
  std::map<int, RankClock> clocks{
      {0, host("a", 10, 0.1)}, {1, host("b", -20, 0.2)}, {2, {.host = "c"}}};
  auto ahead = clocks_ahead({}, clocks);
  BOOST_TEST(ahead.size() == 2u);
  BOOST_TEST(ahead.at(1).seconds == -30, kNear);
  BOOST_TEST(ahead.at(1).error_s == 0.3, kNear);
  // Each rank of a host has its own figures, of which the best count for both.
  clocks[3] = host("b", -20, 0.05);
  ahead = clocks_ahead({}, clocks);
  BOOST_TEST(ahead.at(1).error_s == 0.15, kNear);
  BOOST_TEST(ahead.at(3).error_s == 0.15, kNear);
  // A message says that the clock of b is ahead by -30.1 at most, less than was measured.
  ahead = clocks_ahead({{.from = 0, .to = 1, .sent_s = 100, .came_s = 69.9}}, clocks);
  BOOST_TEST(ahead.at(1).seconds == -30.125, kNear);
  BOOST_TEST(ahead.at(1).error_s == 0.025, kNear);
  for (const double impossible : {std::nan(""), -1.0}) {
    clocks = {{0, host("a", 0, 0)}, {1, host("b", 5, impossible)}};
    BOOST_TEST(clocks_ahead({}, clocks).size() == 1u);
  }
}

BOOST_AUTO_TEST_CASE(no_difference_is_further_off_than_its_error) {
  std::mt19937_64 random(test::fresh_seed());
  const auto draw = [&](double most) {
    return std::uniform_real_distribution<double>(0, most)(random);
  };
  for (int round = 0; round < 200; ++round) {
    // Rank 0 is on the launcher's host; others were measured or not.
    std::vector<double> truth{0};
    std::map<int, RankClock> clocks{{0, {.host = "h0", .measured = ClockAhead{}}}};
    for (int rank = 1; rank < 5; ++rank) {
      truth.push_back(draw(1e6) - 5e5);
      clocks[rank].host = "h" + std::to_string(rank);
      const double error_s = draw(1);
      if (random() % 3 > 0)
        clocks[rank].measured =
            ClockAhead{.seconds = truth.back() + draw(2 * error_s) - error_s, .error_s = error_s};
    }
    std::vector<TracedMessage> messages;
    for (int i = 0; i < 12; ++i) {
      const int from = static_cast<int>(random() % 5), to = static_cast<int>(random() % 5);
      const double sent_s = draw(100);
      messages.push_back({.from = from,
                          .to = to,
                          .sent_s = sent_s + truth[static_cast<std::size_t>(from)],
                          .came_s = sent_s + draw(2) + truth[static_cast<std::size_t>(to)]});
    }
    const auto ahead = clocks_ahead(messages, clocks);
    for (const auto& [rank, clock] : clocks)
      if (clock.measured) BOOST_TEST(ahead.contains(rank));
    for (const auto& [rank, clock] : ahead) {
      BOOST_TEST(std::abs(clock.seconds - truth[static_cast<std::size_t>(rank)]) <=
                 clock.error_s + 1e-9);
      if (const auto& measured = clocks.at(rank).measured)
        BOOST_TEST(clock.error_s <= measured->error_s + 1e-9);
    }
  }
}

BOOST_AUTO_TEST_CASE(times_that_are_set_back_are_those_of_the_first_host) {
  TracedRanks step = step_with({0, 5000, 5000, -70});
  const TracedRanks expected = step_with({0, 0, 0, 0});
  for (const auto& [rank, clock] : clocks_ahead(messages_between(step), kHosts))
    set_back(step.at(rank), clock.seconds);
  for (const auto& [rank, actions] : expected)
    for (std::size_t i = 0; i < actions.size(); ++i) {
      BOOST_TEST(step.at(rank)[i].begin_s == actions[i].begin_s, kNear);
      BOOST_TEST(step.at(rank)[i].end_s == actions[i].end_s, kNear);
      BOOST_TEST(step.at(rank)[i].sent_s == actions[i].sent_s, kNear);
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
