#include "actors/tuning/host_clocks.h"

#include <boost/test/unit_test.hpp>
#include <tuple>

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(host_clocks_test)

namespace {

const std::map<int, std::string> kHosts{{0, "a"}, {1, "b"}, {2, "b"}, {3, "c"}};
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
  for (const auto& [rank, clock] : clocks_ahead(messages, {{0, "a"}, {1, "a"}, {2, "a"}})) {
    BOOST_TEST(clock.seconds == 0);
    BOOST_TEST(clock.error_s == 0);
  }
  BOOST_TEST(clocks_ahead({}, {}).empty());
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
