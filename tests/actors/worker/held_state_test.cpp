#include "actors/worker/held_state.h"

#include <boost/test/unit_test.hpp>

// Tests what a stage tells another director of the state that its worker has: what RankExecutor
// keeps when it is ordered the same.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(held_state_test)

namespace {

ConfigurationHeader header(std::uint32_t number) {
  return {.run = 5, .number = number, .shape = {}};
}

/// "3 reached, 2": the configurations that are held.
std::string held(const HeldState& state) {
  std::string text;
  for (const HeldConfiguration& one : state.configurations())
    text += (text.empty() ? "" : ", ") + std::to_string(one.header.number) +
            (one.reached ? " reached" : "");
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_configuration_is_held_once_the_worker_is_ready) {
  HeldState state;
  BOOST_TEST(held(state) == "");
  state.halted(0);
  state.enters(header(1), 2);
  BOOST_TEST(held(state) == "");
  state.ready(1);
  BOOST_TEST(held(state) == "1");
  BOOST_TEST(state.configurations().front().rank == 2);
  state.stepped(1);
  BOOST_TEST(held(state) == "1 reached");
}

BOOST_AUTO_TEST_CASE(the_one_before_is_held_until_all_ranks_have_reached_the_next) {
  HeldState state;
  state.enters(header(1), 0);
  state.ready(1);
  state.stepped(1);
  state.halted(1);
  state.enters(header(2), 0);
  BOOST_TEST(held(state) == "1 reached");
  state.ready(2);
  BOOST_TEST(held(state) == "2, 1 reached");
  state.stepped(2);
  BOOST_TEST(held(state) == "2 reached");
}

BOOST_AUTO_TEST_CASE(a_halt_says_which_configuration_counts) {
  HeldState state;
  state.enters(header(1), 0);
  state.ready(1);
  state.stepped(1);
  state.halted(1);
  state.enters(header(2), 0);
  state.ready(2);
  state.halted(1);  // not all have reached configuration 2
  BOOST_TEST(held(state) == "1 reached");
  state.enters(header(3), 0);
  state.halted(1);  // it never was ready in it
  BOOST_TEST(held(state) == "1 reached");
  state.enters(header(4), 0);
  state.ready(4);
  state.halted(4);  // all have, though none was ordered a step
  BOOST_TEST(held(state) == "4 reached");
  state.halted(9);  // it took no part in that
  BOOST_TEST(held(state) == "");
}

BOOST_AUTO_TEST_CASE(late_words_of_other_configurations_change_nothing) {
  HeldState state;
  state.enters(header(2), 0);
  state.ready(1);
  BOOST_TEST(held(state) == "");
  state.ready(2);
  state.stepped(1);
  BOOST_TEST(held(state) == "2");
}

BOOST_AUTO_TEST_CASE(the_last_commits_are_kept_each_once) {
  HeldState state;
  for (std::int64_t step = 1; step <= 100; ++step)
    state.committed({.step = step, .loss = 1.0 / static_cast<double>(step)});
  BOOST_TEST(state.commits().size() == HeldState::kMostCommits);
  BOOST_TEST(state.commits().back().step == 100);
  state.committed({.step = 99, .loss = 1.0 / 99});  // computed again
  BOOST_TEST(state.commits().back().step == 99);
  BOOST_TEST(state.commits().size() == HeldState::kMostCommits - 1);
  state.committed({.step = 100, .loss = 1.0 / 100});
  std::int64_t step = 100 - static_cast<std::int64_t>(HeldState::kMostCommits);
  for (const CommittedStep& commit : state.commits()) BOOST_TEST(commit.step == ++step);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
